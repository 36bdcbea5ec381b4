/** A category as two to four proposed parts; images can be moved between them before the split is accepted. */
import { counted, h, picture } from "./dom.js";
import { edit, get, run } from "./api.js";

const MOST_SHOWN = 90;

export class Split {
  constructor(app) { this.app = app; this.element = h("div", { class: "split" }); this.skipped = new Set(); this.wanted = null; this.at = [0, 0]; }

  /** @param {string} [id] which category; without one, the next that may be several things */
  async show(id) {
    if (id) this.wanted = id;
    const { items } = await get(`/api/suggestions?kind=split&n=${this.skipped.size + 1}`);
    this.left = items.filter((one) => !this.skipped.has(one.id));
    this.category = this.wanted ? (await get(`/api/categories?id=${encodeURIComponent(this.wanted)}`)).items[0] : this.left[0];
    if (!this.category) {
      this.wanted = null;
      this.element.replaceChildren(h("h2", { text: "No category looks mixed." }), h("p", { class: "quiet", text: "To split a category anyway, press S in the queue." }));
      return;
    }
    await this.propose();
  }

  async propose(n = 0) {
    const { parts } = await get(`/api/categories/${encodeURIComponent(this.category.id)}/parts?n=${n}`);
    this.parts = parts; this.at = [0, 0];
    this.draw();
  }

  draw() {
    const button = (key, text, act, kind) => h("button", { type: "button", class: kind || "", onclick: act }, text, " ", h("kbd", { text: key }));
    const accept = button("Enter", "Split", () => this.accept(), "main");
    accept.disabled = !!run.why_read_only;
    const column = (part, p) => h("section", { class: "side" }, h("h3", { text: `Part ${p + 1}` }), h("p", { class: "quiet", text: counted(part.length, "image") + (part.length > MOST_SHOWN ? `, ${MOST_SHOWN} shown` : "") }),
      h("div", { class: "grid" }, ...part.slice(0, Math.floor(360 / this.parts.length)).slice(0, MOST_SHOWN).map((one, i) => h("button", { type: "button", class: p === this.at[0] && i === this.at[1] ? "cell at" : "cell", title: `${one.file_name}: click moves it to the next part`, "aria-label": `${one.file_name}, move to the next part`, onclick: () => this.moveOn(p, i) }, picture(one.id)))));
    this.element.replaceChildren(h("h2", {}, "Is ", h("span", { class: "name", text: this.category.name }), ` ${this.parts.length} categories?`),
      h("p", { class: "quiet", text: `${this.category.why ? `It ${this.category.why}. ` : ""}Click an image, or go to it with the arrows and press G, to move it to the next part.` }),
      h("div", { class: "actions" }, accept, ...[2, 3, 4].map((n) => button(n, `${n} parts`, () => this.app.tried(() => this.propose(n)))), button("N", "Do not split", () => this.skip())),
      h("div", { class: "sides", "data-n": this.parts.length }, ...this.parts.map(column)));
  }

  moveOn(p, i) {
    const [image] = this.parts[p].splice(i, 1);
    if (!image) return;
    this.parts[(p + 1) % this.parts.length].push(image);
    this.at = [p, Math.max(0, Math.min(i, this.parts[p].length - 1))];
    this.draw();
  }

  accept() {
    const parts = this.parts.filter((part) => part.length).map((part) => part.map((one) => one.id));
    return this.app.act(() => edit({ op: "split", category: this.category.id, parts }), () => this.after());
  }
  skip() { this.skipped.add(this.category.id); return this.after(); }
  /** Whoever came from the queue goes back there. */
  after() {
    const isFromQueue = this.wanted !== null;
    this.wanted = null;
    return isFromQueue ? this.app.open("queue") : this.app.again();
  }

  key(event) {
    if (!this.category) return false;
    const key = event.key.toLowerCase(), [p, i] = this.at;
    const step = { arrowright: [p, i + 1], arrowleft: [p, i - 1], arrowdown: [p + 1, 0], arrowup: [p - 1, 0] }[key];
    if (step) {
      const part = Math.max(0, Math.min(this.parts.length - 1, step[0]));
      this.at = [part, Math.max(0, Math.min(this.parts[part].length - 1, step[1]))];
      this.draw();
    } else if (key === "enter") this.accept();
    else if (/^[2-4]$/.test(key)) this.app.tried(() => this.propose(Number(key)));
    else if (key === "g") this.moveOn(p, i);
    else if (key === "n" || key === "j" || key === "escape") this.skip();
    else return false;
    return true;
  }
}
