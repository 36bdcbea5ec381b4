/** A grid of images with a cursor and a selection. At most one page of them is in the document. */
import { h, percent, picture } from "./dom.js";

export class Grid {
  /** @param {() => void} onSelect called when the selection changes */
  constructor(onSelect = () => {}) {
    this.element = h("div", { class: "grid", role: "listbox", "aria-multiselectable": "true", "aria-label": "Images" });
    this.onSelect = onSelect; this.items = []; this.at = -1; this.from = -1; this.selected = new Set();
    this.element.addEventListener("click", (event) => {
      const at = this.cells.indexOf(event.target.closest(".cell"));
      if (at >= 0) { event.shiftKey ? this.range(at) : this.toggle(at); }
    });
  }

  get cells() { return [...this.element.children]; }
  get image() { return this.items[this.at] || null; }
  /** The images an action is about: the selected ones, or the one at the cursor. */
  get chosen() { return this.selected.size ? this.items.filter((one) => this.selected.has(one.id)) : this.image ? [this.image] : []; }

  show(items) {
    this.items = items; this.at = this.from = -1; this.selected.clear();
    this.element.replaceChildren(...items.map((one) => h("div", { class: "cell", role: "option", tabindex: "-1", "aria-selected": "false", title: one.file_name,
      "aria-label": `${one.file_name}, ${percent(one.confidence)} sure` }, picture(one.id),
      h("small", { text: one.label_given ? "labelled" : one.is_decided ? "by hand" : percent(one.confidence) }))));
    this.onSelect();
  }

  draw() {
    this.cells.forEach((cell, i) => {
      cell.setAttribute("aria-selected", String(this.selected.has(this.items[i].id)));
      cell.classList.toggle("at", i === this.at);
    });
    this.onSelect();
  }

  go(at) {
    this.at = Math.max(0, Math.min(this.items.length - 1, at));
    this.cells[this.at]?.focus({ preventScroll: false });
    this.draw();
  }
  toggle(at = this.at) {
    if (at < 0) return;
    this.at = this.from = at;
    const { id } = this.items[at];
    this.selected.has(id) ? this.selected.delete(id) : this.selected.add(id);
    this.go(at);
  }
  range(to) {
    if (this.from < 0) this.from = Math.max(0, this.at);
    const [low, high] = [Math.min(this.from, to), Math.max(this.from, to)];
    for (let i = low; i <= high; i += 1) if (this.items[i]) this.selected.add(this.items[i].id);
    this.go(to);
  }
  all() { this.items.forEach((one) => this.selected.add(one.id)); this.draw(); }
  clear() { this.selected.clear(); this.at = this.from = -1; document.activeElement?.blur(); this.draw(); }

  /** @returns {boolean} whether the key was one of the grid's */
  key(event) {
    const across = Math.max(1, this.cells.filter((cell) => cell.offsetTop === this.cells[0].offsetTop).length);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    if (step && this.items.length) {
      const to = this.at < 0 ? 0 : this.at + step;
      if (event.shiftKey) this.range(Math.max(0, Math.min(this.items.length - 1, to))); else { this.from = -1; this.go(to); }
    } else if (event.key === " " && this.at >= 0) this.toggle();
    else if (event.key === "a" && (event.ctrlKey || event.metaKey)) this.all();
    else if (event.key === "Escape") this.clear();
    else return false;
    return true;
  }
}
