/** Two categories that may be one: Y merges them, N is remembered. */
import { badge, counted, h, percent, strip } from "./dom.js";
import { edit, get, run } from "./api.js";

export class Same {
  constructor(app) { this.app = app; this.element = h("div", { class: "same" }); this.skipped = new Set(); }

  async show() {
    const { items, total } = await get(`/api/suggestions?kind=merge&n=${this.skipped.size + 1}`);
    const left = items.filter((one) => !this.skipped.has(`${one.first.id}\n${one.second.id}`));
    this.pair = left[0] || null;
    if (!this.pair) {
      this.element.replaceChildren(h("h2", { text: "No two categories look the same." }), h("p", { class: "quiet", text: this.skipped.size ? "To see the questions you skipped, reload the page." : "Come back after you have corrected more." }));
      return;
    }
    const { first, second, similarity } = this.pair;
    const side = (one) => h("section", { class: "side" }, h("h3", {}, h("span", { class: "name", text: one.name }), badge(one.kind)), h("p", { class: "quiet", text: counted(one.size, "image") }), strip(one.typical, 12));
    const button = (key, text, act, kind) => h("button", { type: "button", class: kind || "", disabled: !!run.why_read_only, onclick: act }, text, " ", h("kbd", { text: key }));
    this.element.replaceChildren(h("h2", { text: "Are these the same?" }), h("p", { class: "quiet", text: `${percent(Math.max(0, similarity))} similar · ${counted(Math.max(left.length, total - this.skipped.size), "question")} left` }),
      h("div", { class: "actions" }, button("Y", "Same: merge", () => this.yes(), "main"), button("N", "Not the same", () => this.no()), button("0", "Skip", () => this.skip())), h("div", { class: "sides" }, side(first), side(second)));
  }

  ids() { return [this.pair.first.id, this.pair.second.id]; }
  yes() { return this.app.act(() => edit({ op: "merge", categories: this.ids() })); }
  no() { return this.app.act(() => edit({ op: "apart", categories: this.ids() })); }
  skip() { this.skipped.add(this.ids().join("\n")); this.app.again(); }

  key(event) {
    const act = { y: () => this.yes(), n: () => this.no(), 0: () => this.skip(), j: () => this.skip() }[event.key.toLowerCase()];
    if (!act || !this.pair) return false;
    act();
    return true;
  }
}
