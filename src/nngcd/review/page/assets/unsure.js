/** One image at a time that the model was unsure of, and its three best categories. */
import { badge, counted, h, percent, picture } from "./dom.js";
import { edit, get, run } from "./api.js";
import { askName, zoom } from "./dialogs.js";

export class Unsure {
  constructor(app) { this.app = app; this.element = h("div", { class: "unsure" }); this.skip = 0; }

  async show() {
    const { items, total } = await get(`/api/unsure?n=1&offset=${this.skip}`);
    this.image = items[0] || null;
    if (!this.image) {
      const text = this.skip ? `You skipped ${counted(this.skip, "image")}. Reload the page to see them again.` : "";
      this.element.replaceChildren(h("h2", { text: "No unsure images are left." }), h("p", { class: "quiet", text }));
      return;
    }
    const choice = (one, i) => h("button", { type: "button", class: "choice", disabled: !!run.why_read_only, onclick: () => this.choose(i) }, h("kbd", { text: i + 1 }), h("div", { class: "strip" }, ...one.typical.map((id) => picture(id))),
      h("span", { class: "label", text: one.name }), badge(one.kind));
    const button = (key, text, act) => h("button", { type: "button", onclick: act }, text, " ", h("kbd", { text: key }));
    this.element.replaceChildren(h("section", {}, h("h2", { text: "Where does this belong?" }), h("p", { class: "quiet", text: `${this.image.file_name} · ${percent(this.image.confidence)} sure · ${counted(total - this.skip, "image")} left` }),
      h("div", { class: "large" }, picture(this.image.id, { size: 512, alt: this.image.file_name }))),
      h("section", { class: "choices" }, ...this.image.choices.map(choice),
        h("div", { class: "actions" }, button("G", "Another…", () => this.other()), button("N", "New category", () => this.put({ op: "move", images: [this.image.id] })), button("X", "Reject", () => this.put({ op: "reject", images: [this.image.id] })), button("0", "Skip", () => this.pass()))));
  }

  put(change) { return this.app.act(() => edit(change)); }
  choose(i) { const to = this.image.choices[i]; if (to) this.put({ op: "move", images: [this.image.id], to: to.id }); }
  pass() { this.skip += 1; this.app.again(); }
  async other() {
    const images = [this.image.id];
    const given = await askName("Where does this image belong?", { hint: "A new name makes a new category." });
    if (given) await this.put(given.category ? { op: "move", images, to: given.category.id } : { op: "move", images, name: given.name });
  }

  key(event) {
    if (!this.image) return false;
    const key = event.key.toLowerCase();
    if (/^[1-3]$/.test(key)) this.choose(Number(key) - 1);
    else if (key === "0" || key === "j") this.pass();
    else if (key === "n") this.put({ op: "move", images: [this.image.id] });
    else if (key === "x") this.put({ op: "reject", images: [this.image.id] });
    else if (key === "g") this.other();
    else if (key === "z") zoom(this.image);
    else return false;
    return true;
  }
}
