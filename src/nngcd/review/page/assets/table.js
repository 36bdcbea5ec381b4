/** All categories: sort, filter, select many, merge or approve them. */
import { badge, counted, h, percent, picture } from "./dom.js";
import { edit, get, run } from "./api.js";

const N = 50;

export class Table {
  constructor(app) {
    this.app = app; this.offset = 0; this.selected = new Map();
    const choose = (name, options) => h("label", {}, `${name} `, h("select", { onchange: () => this.from(0) }, ...options.map(([value, text]) => h("option", { value, text }))));
    this.search = h("input", { type: "search", "aria-label": "Search by name", placeholder: "Search", oninput: () => this.from(0), onkeydown: (event) => event.key === "Escape" && this.search.blur() });
    this.sort = choose("Sort", [["queue", "queue order"], ["size", "size"], ["name", "name"], ["confidence", "least sure first"]]);
    this.kind = choose("Kind", [["all", "all"], ["known", "known"], ["new", "new"]]);
    this.status = choose("Status", [["all", "all"], ["open", "open"], ["approved", "approved"]]);
    this.bar = h("div", { class: "actions" });
    this.body = h("tbody");
    this.shown = h("p", { class: "shown" });
    this.element = h("div", { class: "table" }, h("div", { class: "filters" }, this.search, this.sort, this.kind, this.status), this.bar,
      h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ...["", "Typical", "Name", "Kind", "Images", "Sure", "Status"].map((text) => h("th", { scope: "col", text })))), this.body)), this.shown);
  }

  from(offset) { this.offset = offset; return this.app.tried(() => this.show()); }

  /** @param {string} [text] begin to search */
  async show(text) {
    const value = (label) => label.querySelector("select").value;
    const path = `/api/categories?sort=${value(this.sort)}&kind=${value(this.kind)}&status=${value(this.status)}&q=${encodeURIComponent(this.search.value)}&offset=${this.offset}&n=${N}&typical=4`;
    const { items, total } = await get(path);
    for (const id of [...this.selected.keys()]) if (run.version !== this.version) this.selected.delete(id);
    this.version = run.version;
    this.body.replaceChildren(...items.map((one) => h("tr", {},
      h("td", {}, h("input", { type: "checkbox", "aria-label": `Select ${one.name}`, checked: this.selected.has(one.id), onchange: (event) => { event.target.checked ? this.selected.set(one.id, one) : this.selected.delete(one.id); this.draw(); } })),
      h("td", { class: "pictures" }, ...one.typical.map((id) => picture(id))), h("td", {}, h("a", { href: "#queue", onclick: (event) => { event.preventDefault(); this.app.open("queue", one.id); }, text: one.name })),
      h("td", {}, badge(one.kind)), h("td", { text: one.size.toLocaleString("en") }), h("td", { text: percent(one.confidence) }), h("td", { text: one.is_approved ? "approved" : "open" }))));
    this.shown.textContent = `${total ? this.offset + 1 : 0} to ${Math.min(this.offset + N, total)} of ${counted(total, "category")}`;
    this.total = total;
    this.draw();
    if (text !== undefined) this.search.focus();
  }

  draw() {
    const n = this.selected.size;
    const button = (text, act, isOff) => h("button", { type: "button", disabled: isOff || !!run.why_read_only, onclick: act, text });
    this.bar.replaceChildren(h("strong", { text: `${n} selected` }), button("Merge", () => this.merge(), n < 2), button("Approve", () => this.approve(), n < 1),
      h("button", { type: "button", disabled: this.offset === 0, onclick: () => this.from(Math.max(0, this.offset - N)), text: "Previous" }),
      h("button", { type: "button", disabled: this.offset + N >= (this.total || 0), onclick: () => this.from(this.offset + N), text: "Next" }));
  }

  merge() { return this.selected.size > 1 && this.app.act(() => edit({ op: "merge", categories: [...this.selected.keys()] })); }
  approve() {
    const open = [...this.selected.values()].filter((one) => !one.is_approved);
    return open.length && this.app.act(() => edit(...open.map((one) => ({ op: "approve", category: one.id }))));
  }

  key(event) {
    const act = { "/": () => this.search.focus(), m: () => this.merge(), a: () => !event.ctrlKey && this.approve(), pagedown: () => this.offset + N < this.total && this.from(this.offset + N), pageup: () => this.from(Math.max(0, this.offset - N)) }[event.key.toLowerCase()];
    act?.();
    return !!act;
  }
}
