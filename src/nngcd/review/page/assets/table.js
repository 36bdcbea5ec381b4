/** All categories: sort, filter, select many, merge or approve them. */
import { badge, counted, h, keyButton, number, percent, picture } from "./dom.js";
import { edit, get, run } from "./api.js";
/** @import {App} from "./main.js" */
/** @import {Category} from "./types.js" */

const N = 50;
const COLUMNS = ["Select", "Typical", "Name", "Kind", "Images", "Sure", "Status"];
const SORTS = { queue: "queue order", size: "size", name: "name", confidence: "least sure first" };
const KINDS = { all: "all", known: "known", new: "new" };
const STATUSES = { all: "all", open: "open", approved: "approved" };

export class Table {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.offset = this.total = this.version = 0;
    /** @type {Map<string, Category>} */
    this.selected = new Map();
    /** @type {Category[]} */
    this.items = [];
    this.at = -1;
    const props = { type: "search", "aria-label": "Search by name", placeholder: "Search" };
    this.search = h("input", { ...props, oninput: () => this.turn(0), onkeydown: this.leaveSearch });
    this.sort = this.choice(SORTS);
    this.kind = this.choice(KINDS);
    this.status = this.choice(STATUSES);
    this.bar = h("div", { class: "actions bar-of-actions" });
    this.body = h("tbody");
    this.shown = h("p", { class: "shown" });
    const labelled = (/** @type {string} */ text, /** @type {Node} */ field) => h("label", {}, `${text} `, field);
    this.element = h(
      "div",
      { class: "table" },
      h(
        "div",
        { class: "filters" },
        this.search,
        labelled("Sort", this.sort),
        labelled("Kind", this.kind),
        labelled("Status", this.status),
      ),
      this.bar,
      h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ...COLUMNS.map(heading))), this.body)),
      this.shown,
    );
  }

  /** @param {Object<string, string>} options */
  choice(options) {
    const made = Object.entries(options).map(([value, text]) => h("option", { value, text }));
    return h("select", { onchange: () => this.turn(0) }, ...made);
  }

  /** Out of the search field and into what it found. */
  leaveSearch = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape" || event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      this.go(0);
    }
  };

  /** @param {number} offset */
  turn(offset) {
    return this.app.tried(() => {
      this.offset = offset;
      return this.show();
    });
  }

  /** @param {string} [text] begin to search */
  async show(text) {
    const asked = new URLSearchParams({ sort: this.sort.value, kind: this.kind.value, status: this.status.value });
    asked.set("q", this.search.value);
    const { items, total } = await get(`/api/categories?${asked}&offset=${this.offset}&n=${N}&typical=4`);
    if (run.version !== this.version) this.selected.clear();
    [this.version, this.items, this.total] = [run.version, items, total];
    this.body.replaceChildren(...this.items.map((one, i) => this.row(one, i)));
    this.shown.textContent = `${total ? this.offset + 1 : 0} to ${Math.min(this.offset + N, total)} of ${counted(total, "category")}`;
    this.draw();
    if (text !== undefined) this.search.focus();
    else if (this.at >= 0 && document.activeElement !== this.search) this.go(this.at);
  }

  /** @param {Category} one @param {number} i */
  row(one, i) {
    const isOn = this.selected.has(one.id);
    const tick = {
      "aria-label": `Select ${one.name}`,
      checked: isOn,
      onchange: () => this.toggle(i),
      onfocus: () => (this.at = i),
    };
    const open = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.app.open("queue", one.id);
    };
    return h(
      "tr",
      { class: isOn ? "selected" : null },
      h("td", {}, h("input", { type: "checkbox", ...tick })),
      h("td", { class: "pictures" }, ...one.typical.map((id) => picture(id))),
      h("td", { class: "called" }, h("a", { href: "#queue", onclick: open, text: one.name })),
      h("td", {}, badge(one.kind)),
      h("td", { text: number(one.size) }),
      h("td", { text: percent(one.confidence) }),
      h("td", { text: one.is_approved ? "approved" : "open" }),
    );
  }

  /** @param {number} i @param {boolean} [isOn] */
  toggle(i, isOn = !this.selected.has(this.items[i].id)) {
    const one = this.items[i];
    if (isOn) this.selected.set(one.id, one);
    else this.selected.delete(one.id);
    this.body.children[i].classList.toggle("selected", isOn);
    this.box(i).checked = isOn;
    this.draw();
  }

  /** @param {number} i */
  box(i) {
    return /** @type {HTMLInputElement} */ (this.body.children[i].querySelector("input"));
  }

  /** @param {number} at */
  go(at) {
    if (!this.items.length) return;
    this.at = Math.max(0, Math.min(this.items.length - 1, at));
    this.box(this.at).focus();
  }

  draw() {
    const n = this.selected.size;
    const isOff = !!run.why_read_only;
    this.bar.replaceChildren(
      keyButton("M", "Merge", () => this.merge(), { isOff: isOff || n < 2 }),
      keyButton("A", "Approve", () => this.approve(), { isOff: isOff || n < 1 }),
      keyButton("Page ↑", "Previous", () => this.page(-1), { isOff: this.offset === 0 }),
      keyButton("Page ↓", "Next", () => this.page(1), { isOff: this.offset + N >= this.total }),
      h("span", { class: "chosen", text: `${n} selected` }),
    );
  }

  /** @param {number} step */
  page(step) {
    const offset = this.offset + step * N;
    if (offset >= 0 && offset < this.total) this.turn(offset);
  }

  merge() {
    const categories = [...this.selected.keys()];
    if (categories.length < 2)
      return this.app.say("Select at least two categories: Space selects the one at the cursor.");
    return this.app.act(() => edit({ op: "merge", categories }));
  }

  approve() {
    const open = [...this.selected.values()].filter((one) => !one.is_approved);
    if (!open.length)
      return this.app.say("Select categories that are not approved yet: Space selects the one at the cursor.");
    return this.app.act(() => edit(...open.map((one) => ({ op: "approve", category: one.id }))));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const isCommand = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    const step = { arrowdown: 1, j: 1, arrowup: -1, k: -1 }[key];
    if (step) return this.walk(step, event.shiftKey);
    const act = {
      "/": () => this.search.focus(),
      m: () => this.merge(),
      a: () => (isCommand ? this.items.forEach((_, i) => this.toggle(i, true)) : this.approve()),
      enter: () => this.items[this.at] && this.app.open("queue", this.items[this.at].id),
      pagedown: () => this.page(1),
      pageup: () => this.page(-1),
    }[key];
    return act ? act() : false;
  }

  /** @param {number} step @param {boolean} isRange */
  walk(step, isRange) {
    if (isRange && this.items[this.at]) this.toggle(this.at, true);
    this.go(this.at + step);
    if (isRange && this.items[this.at]) this.toggle(this.at, true);
  }
}

/** @param {string} text */
const heading = (text) => h("th", { scope: "col" }, text === "Select" ? h("span", { class: "unseen", text }) : text);
