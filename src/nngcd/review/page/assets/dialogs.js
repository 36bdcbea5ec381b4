/** Questions above the page. Escape closes each. */
import { badge, counted, h, picture } from "./dom.js";
import { get } from "./api.js";
/** @import {Category} from "./types.js" */

const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("dialog"));
export const isOpen = () => dialog.open;
export const close = () => dialog.close();

/**
 * @param {string} title
 * @param {...(Node|null)} content
 * @returns {Promise<void>} when it is closed
 */
export function show(title, ...content) {
  dialog.className = "";
  dialog.replaceChildren(h("h2", { id: "dialog-title", text: title }), ...content.filter((one) => one !== null));
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    const closed = () => {
      if (dialog.open) return; // the last dialog's event, which comes late
      dialog.removeEventListener("close", closed);
      resolve();
    };
    dialog.addEventListener("close", closed);
  });
}

/** @param {string} text */
export const closeButton = (text) => h("button", { type: "button", onclick: close, text });

/**
 * @param {string} title
 * @param {string} text
 * @param {string} yes
 * @returns {Promise<boolean>}
 */
export function confirm(title, text, yes) {
  return new Promise((resolve) => {
    const act = () => {
      resolve(true);
      close();
    };
    const main = h("button", { type: "button", class: "main", onclick: act, text: yes });
    show(title, h("p", { text }), h("p", { class: "buttons" }, main, closeButton("Cancel"))).then(() => resolve(false));
    main.focus();
  });
}

/**
 * Ask for a name, completing those that exist.
 * @param {string} title
 * @param {{value?: string, hint?: string, without?: string}} [how] what stands there, and a category not to offer
 * @returns {Promise<{name: string, category: Category|null}|null>} the category, where the name is one that exists
 */
export function askName(title, { value = "", hint = "", without = "" } = {}) {
  return new Promise((resolve) => {
    /** @param {string} name @param {Category|null} category */
    const take = (name, category) => {
      resolve({ name, category });
      close();
    };
    const box = new NameBox(title, value, without, take);
    const hinted = hint ? h("p", { class: "quiet", text: hint }) : null;
    show(title, box.input, hinted, box.list).then(() => resolve(null));
    box.begin();
  });
}

/** A text field that lists the categories whose names contain what is typed. */
class NameBox {
  /** @param {string} title @param {string} value @param {string} without @param {(name: string, category: Category|null) => void} take */
  constructor(title, value, without, take) {
    this.without = without;
    this.take = take;
    /** @type {Category[]} */
    this.found = [];
    this.at = -1;
    this.asked = 0;
    const combobox = { role: "combobox", "aria-expanded": "false", "aria-controls": "names", "aria-label": title };
    this.input = h("input", { type: "text", value, maxlength: 200, autocomplete: "off", ...combobox });
    this.list = h("ul", { id: "names", class: "names", role: "listbox", "aria-label": "Categories" });
    this.input.addEventListener("input", () => this.search());
    this.input.addEventListener("keydown", (event) => this.key(event));
  }

  begin() {
    this.input.focus();
    this.input.select();
    this.search();
  }

  get typed() {
    return this.input.value.trim();
  }

  async search() {
    const asked = ++this.asked;
    const { items } = await get(`/api/categories?sort=name&n=8&typical=1&q=${encodeURIComponent(this.typed)}`);
    if (asked !== this.asked) return;
    this.found = items.filter((/** @type {Category} */ one) => one.id !== this.without);
    this.go(-1);
  }

  /** @param {number} at */
  go(at) {
    this.at = Math.max(-1, Math.min(this.found.length - 1, at));
    this.list.replaceChildren(...this.found.map((one, i) => this.option(one, i)));
    this.input.setAttribute("aria-expanded", String(this.found.length > 0));
    this.input.setAttribute("aria-activedescendant", this.at < 0 ? "" : `name-${this.at}`);
  }

  /** @param {Category} one @param {number} i */
  option(one, i) {
    return h(
      "li",
      {
        role: "option",
        id: `name-${i}`,
        "aria-selected": String(i === this.at),
        onclick: () => this.take(one.name, one),
      },
      one.typical[0] ? picture(one.typical[0]) : null,
      h("span", { text: one.name }),
      badge(one.kind),
      h("small", { text: counted(one.size, "image") }),
    );
  }

  /** @param {KeyboardEvent} event */
  async key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step && event.key !== "Enter") return;
    event.preventDefault();
    if (step) this.go(this.at + step);
    else if (this.at >= 0) this.take(this.found[this.at].name, this.found[this.at]);
    else if (this.typed) await this.takeTyped();
  }

  async takeTyped() {
    const { items } = await get(`/api/categories?sort=name&n=400&typical=0&q=${encodeURIComponent(this.typed)}`);
    const wanted = this.typed.toLowerCase();
    const isIt = (/** @type {Category} */ one) => one.id !== this.without && one.name.toLowerCase() === wanted;
    this.take(this.typed, items.find(isIt) ?? null);
  }
}
