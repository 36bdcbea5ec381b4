/** Every edit: who, when, what; and undo back to any line. */
import { counted, h, keyButton } from "./dom.js";
import { get, run } from "./api.js";
/** @import {App} from "./main.js" */
/** @typedef {{number: number, t: string, user: string, words: string, is_undone: boolean}} Line */

/** Lines that are asked for at once. */
const N = 200;

export class Log {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.title = h("h2");
    this.list = h("ol");
    this.more = h("div", { class: "actions" });
    this.element = h("div", { class: "log" }, this.title, this.list, this.more);
    this.nShown = this.nInForce = 0;
  }

  async show() {
    this.nShown = this.nInForce = 0;
    this.list.replaceChildren();
    await this.add();
  }

  async add() {
    const { items, total } = await get(`/api/log?offset=${this.nShown}&n=${N}`);
    this.title.textContent = total ? counted(total, "edit") : "Nothing has been edited yet.";
    this.list.append(...items.map((/** @type {Line} */ one) => this.line(one)));
    this.nShown += items.length;
    const older = keyButton("Page ↓", "Older", () => this.app.tried(() => this.add()));
    this.more.replaceChildren(...(this.nShown < total ? [older] : []));
    this.hasMore = this.nShown < total;
  }

  /** @param {Line} one */
  line(one) {
    this.nInForce += one.is_undone ? 0 : 1;
    const n = this.nInForce; // edits that are undone to get rid of this one
    const time = one.t.replace("T", " ").replace(/(\+00:00|Z)$/, " UTC");
    const text = n === 1 ? "Undo" : `Undo these ${n}`;
    return h(
      "li",
      { class: one.is_undone ? "undone" : null },
      h("time", { datetime: one.t, text: time }),
      h("span", { class: "who", text: one.user }),
      h("span", { class: "what", text: one.words + (one.is_undone ? " (undone)" : "") }),
      !one.is_undone &&
        h("button", { type: "button", disabled: !!run.why_read_only, onclick: () => this.app.undo(n), text }),
    );
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    return event.key === "PageDown" && this.hasMore ? this.app.tried(() => this.add()) : false;
  }
}
