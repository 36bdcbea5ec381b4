/** A grid of images with a cursor and a selection. At most one page of them is in the document. */
import { h, percent, picture } from "./dom.js";
/** @import {ImageFacts} from "./types.js" */

/** @param {ImageFacts} one */
const sureness = (one) => (one.label_given ? "labelled" : one.is_decided ? "by hand" : percent(one.confidence));

export class Grid {
  /**
   * @param {() => void} [onSelect] called when the selection changes
   * @param {(at: number) => void} [onClick] does what a click does; selecting, if it is not given
   */
  constructor(onSelect = () => {}, onClick) {
    const role = { role: "listbox", "aria-multiselectable": "true", "aria-label": "Images" };
    this.element = h("div", { class: "grid", ...role });
    this.onSelect = onSelect;
    /** @type {ImageFacts[]} */
    this.items = [];
    /** @type {Set<string>} */
    this.selected = new Set();
    this.at = this.from = -1;
    this.withNames = false;
    this.element.addEventListener("click", (event) => {
      const at = this.indexOf(event);
      if (at >= 0 && onClick) onClick(at);
      else if (at >= 0) event.shiftKey ? this.range(at) : this.toggle(at);
    });
    this.element.addEventListener("focusin", (event) => {
      if (this.at >= 0) return;
      this.at = this.indexOf(event);
      this.draw();
    });
  }

  get cells() {
    return /** @type {HTMLElement[]} */ ([...this.element.children]);
  }
  /** @returns {ImageFacts|null} */
  get image() {
    return this.items[this.at] || null;
  }
  /** The images an action is about: the selected ones, or the one at the cursor. */
  get chosen() {
    if (this.selected.size) return this.items.filter((one) => this.selected.has(one.id));
    return this.image ? [this.image] : [];
  }

  /** @param {Event} event */
  indexOf(event) {
    const cell = /** @type {HTMLElement} */ (event.target).closest(".cell");
    return this.cells.findIndex((one) => one === cell);
  }

  /**
   * @param {ImageFacts[]} items
   * @param {{keep?: boolean, withNames?: boolean}} [how] `keep` leaves the cursor at its place, so that the next image
   *   can be judged at once; `withNames` says of what category each image is
   */
  show(items, { keep = false, withNames = false } = {}) {
    const at = keep ? this.placeIn(items) : -1;
    const had = new Map(this.cells.map((cell, i) => [this.items[i].id, cell]));
    this.items = items;
    this.withNames = withNames;
    this.at = at;
    this.from = -1;
    this.selected.clear();
    this.element.replaceChildren(...items.map((one) => this.cell(one, had.get(one.id))));
    this.cells[at]?.focus({ preventScroll: true });
    this.draw();
  }

  /** Where the cursor is among other images: at its image or, where that has gone, at the one that followed. */
  placeIn(/** @type {ImageFacts[]} */ items) {
    const stays = new Set(items.map((one) => one.id));
    const nBefore = this.items.slice(0, Math.max(0, this.at)).filter((one) => stays.has(one.id)).length;
    return this.at < 0 ? -1 : Math.min(nBefore, items.length - 1);
  }

  /**
   * @param {ImageFacts} one
   * @param {HTMLElement} [had] its cell until now: the picture stays, so nothing flickers and nothing is loaded again
   */
  cell(one, had) {
    const name = this.withNames ? one.name : null;
    const label = `${one.file_name}, ${name ? `${name}, ` : ""}${percent(one.confidence)} sure`;
    const props = { class: "cell", role: "option", tabindex: "-1", title: one.file_name, "aria-label": label };
    return h("div", props, had?.querySelector("img") ?? picture(one.id), h("small", { text: name ?? sureness(one) }));
  }

  draw() {
    this.cells.forEach((cell, i) => {
      cell.setAttribute("aria-selected", String(this.selected.has(this.items[i].id)));
      cell.setAttribute("tabindex", i === Math.max(0, this.at) ? "0" : "-1");
      cell.classList.toggle("at", i === this.at);
    });
    this.onSelect();
  }

  /** @param {number} at */
  go(at) {
    this.at = Math.max(0, Math.min(this.items.length - 1, at));
    this.cells[this.at]?.focus();
    this.draw();
  }

  toggle(at = this.at) {
    if (at < 0) return;
    const { id } = this.items[at];
    if (!this.selected.delete(id)) this.selected.add(id);
    this.from = at;
    this.go(at);
  }

  /** @param {number} to */
  range(to) {
    if (this.from < 0) this.from = Math.max(0, this.at);
    const [low, high] = [Math.min(this.from, to), Math.max(this.from, to)];
    this.items.slice(low, high + 1).forEach((one) => this.selected.add(one.id));
    this.go(to);
  }

  all() {
    this.items.forEach((one) => this.selected.add(one.id));
    this.draw();
  }

  clear() {
    this.selected.clear();
    this.at = this.from = -1;
    /** @type {HTMLElement|null} */ (document.activeElement)?.blur();
    this.draw();
  }

  /** @param {KeyboardEvent} event @returns {boolean} whether the key was one of the grid's */
  key(event) {
    const across = Math.max(1, this.cells.filter((cell) => cell.offsetTop === this.cells[0].offsetTop).length);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    if (step && this.items.length) this.walk(this.at < 0 ? 0 : this.at + step, event.shiftKey);
    else if (event.key === " " && this.at >= 0) this.toggle();
    else if (event.key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) this.all();
    else if (event.key === "Escape" && (this.at >= 0 || this.selected.size)) this.clear();
    else return false;
    return true;
  }

  /** @param {number} to @param {boolean} isRange */
  walk(to, isRange) {
    if (isRange) return this.range(Math.max(0, Math.min(this.items.length - 1, to)));
    this.from = -1;
    return this.go(to);
  }
}
