/** The categories most like the one that is shown; each has a number, which is its key. */
import { h, percent, picture } from "./dom.js";
import { run } from "./api.js";
/** @import {Category} from "./types.js" */

export class Neighbours {
  /** @param {(category: Category) => any} take does what choosing one means */
  constructor(take) {
    this.take = take;
    this.element = h("aside", { class: "neighbours", "aria-label": "Nearest categories" });
    this.hint = h("p", { class: "quiet" });
    /** @type {Category[]} */
    this.all = [];
  }

  /** @param {{known: Category[], new: Category[]}} nearest */
  draw(nearest) {
    this.all = [...nearest.known, ...nearest.new];
    this.element.replaceChildren(
      ...this.group("Nearest known", nearest.known),
      ...this.group("Nearest new", nearest.new),
      this.hint,
    );
  }

  /** @param {string} title @param {Category[]} categories */
  group(title, categories) {
    if (!categories.length) return [];
    return [h("h3", { text: title }), h("div", { class: "nears" }, ...categories.map((one) => this.card(one)))];
  }

  /** @param {Category} one */
  card(one) {
    return h(
      "button",
      { type: "button", class: "near", disabled: !!run.why_read_only, onclick: () => this.take(one) },
      h("kbd", { text: this.all.indexOf(one) + 1 }),
      ...one.typical.slice(0, 3).map((id) => picture(id)),
      h("span", { class: "label", text: one.name }),
      h("small", { text: `${percent(Math.max(0, one.similarity ?? 0))} similar` }),
    );
  }

  /** @param {string} chosen what an action would be about, in words; empty for the whole category */
  tell(chosen) {
    this.hint.textContent = chosen
      ? `A number moves ${chosen.replace(" selected", " selected images").replace(/^1 selected images/, "the selected image")} there.`
      : "A number merges this category into that one.";
  }

  /** @param {string} key @returns {Category|undefined} */
  numbered(key) {
    return /^[1-9]$/.test(key) ? this.all[Number(key) - 1] : undefined;
  }
}
