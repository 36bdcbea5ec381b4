/** Every edit: who, when, what; and undo back to any line. */
import { counted, h } from "./dom.js";
import { get, run } from "./api.js";

export class Log {
  constructor(app) { this.app = app; this.element = h("div", { class: "log" }); }

  async show() {
    const { items, total } = await get("/api/log?n=400");
    let n = 0;
    const line = (one) => {
      n += one.is_undone ? 0 : 1;
      const steps = n;
      return h("li", { class: one.is_undone ? "undone" : null }, h("time", { datetime: one.t, text: one.t.replace("T", " ").replace(/(\+00:00|Z)$/, "") }), h("span", { class: "who", text: one.user }), h("span", { text: one.words + (one.is_undone ? " (undone)" : "") }),
        one.is_undone ? null : h("button", { type: "button", disabled: !!run.why_read_only, onclick: () => this.app.undo(steps), text: steps === 1 ? "Undo" : `Undo these ${steps}` }));
    };
    this.element.replaceChildren(h("h2", { text: total ? counted(total, "edit") : "Nothing has been edited yet." }), h("ol", {}, ...items.map(line)));
  }

  key() { return false; }
}
