/** Two categories that may be one: Y merges them, N is remembered. */
import { badge, counted, h, keyButton, percent, strip } from "./dom.js";
import { edit, get, run } from "./api.js";
/** @import {App} from "./main.js" */
/** @import {Category} from "./types.js" */
/** @typedef {{first: Category, second: Category, similarity: number}} Pair */

export class Same {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "same" });
    /** @type {Set<string>} */
    this.skipped = new Set();
    /** @type {Pair|null} */
    this.pair = null;
  }

  async show() {
    const { items, total } = await get(`/api/suggestions?kind=merge&n=${this.skipped.size + 1}`);
    const left = items.filter((/** @type {Pair} */ one) => !this.skipped.has(named(one)));
    this.pair = left[0] ?? null;
    if (this.pair) this.draw(this.pair, Math.max(left.length, total - this.skipped.size));
    else this.finish();
  }

  finish() {
    const text = this.skipped.size
      ? "To see the questions you skipped, reload the page."
      : "Come back after you have corrected more.";
    this.element.replaceChildren(
      h("h2", { text: "No two categories look the same." }),
      h("p", { class: "quiet", text }),
    );
  }

  /** @param {Pair} pair @param {number} nLeft */
  draw({ first, second, similarity }, nLeft) {
    const isOff = !!run.why_read_only;
    const facts = `${percent(Math.max(0, similarity))} similar · ${counted(nLeft, "question")} left`;
    this.element.replaceChildren(
      h("h2", { text: "Are these the same?" }),
      h("p", { class: "quiet", text: facts }),
      h(
        "div",
        { class: "actions" },
        keyButton("Y", "Same: merge", () => this.yes(), { isMain: true, isOff }),
        keyButton("N", "Not the same", () => this.no(), { isOff }),
        keyButton("0", "Skip", () => this.skip()),
      ),
      h("div", { class: "sides" }, this.side(first), this.side(second)),
    );
  }

  /** @param {Category} one */
  side(one) {
    return h(
      "section",
      { class: "side" },
      h("h3", {}, h("span", { class: "name", text: one.name }), badge(one.kind)),
      h("p", { class: "quiet", text: counted(one.size, "image") }),
      strip(one.typical, 12),
    );
  }

  get ids() {
    return this.pair ? [this.pair.first.id, this.pair.second.id] : [];
  }

  yes() {
    return this.app.act(() => edit({ op: "merge", categories: this.ids }));
  }
  no() {
    return this.app.act(() => edit({ op: "apart", categories: this.ids }));
  }
  skip() {
    if (this.pair) this.skipped.add(named(this.pair));
    return this.app.again();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const act = { y: () => this.yes(), n: () => this.no(), 0: () => this.skip(), j: () => this.skip() }[
      event.key.toLowerCase()
    ];
    return act && this.pair ? act() : false;
  }
}

/** @param {Pair} pair */
const named = ({ first, second }) => `${first.id}\n${second.id}`;
