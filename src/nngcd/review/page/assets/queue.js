/** One category at a time, the one whose approval settles most images first. */
import { badge, counted, h, percent, picture, strip } from "./dom.js";
import { edit, get, run } from "./api.js";
import { askName, confirm, zoom } from "./dialogs.js";
import { Grid } from "./grid.js";

const N = 120;

export class Queue {
  constructor(app) {
    this.app = app; this.category = null; this.offset = 0; this.similar = null;
    this.head = h("div"); this.side = h("aside", { "aria-label": "Nearest categories" });
    this.bar = h("div", { class: "actions" });
    this.grid = new Grid(() => this.drawBar());
    this.shown = h("p", { class: "shown" });
    this.element = h("div", { class: "queue" }, h("section", {}, this.head, this.bar, this.shown, this.grid.element), this.side);
  }

  /** @param {string} [id] a category; without one, stay at this one if it is still there, else the first open one */
  async show(id) {
    this.similar = null;
    const { items } = await get("/api/categories?sort=queue&status=open&n=400&typical=0");
    this.open = items;
    const wanted = id ?? this.category?.id;
    const here = wanted ? (await get(`/api/categories?typical=9&id=${encodeURIComponent(wanted)}`)).items[0] : null;
    const first = items[Math.min(this.place ?? 0, items.length - 1)] ?? items[0];
    await this.put(here ? here : first && (await get(`/api/categories/${encodeURIComponent(first.id)}`)));
  }

  async put(category, offset = 0) {
    const isSame = category && this.category?.id === category.id && offset === this.offset;
    this.category = category; this.offset = offset;
    if (!category) return this.finish();
    const at = this.open.findIndex((one) => one.id === category.id);
    if (at >= 0) this.place = at;
    const path = `/api/categories/${encodeURIComponent(category.id)}`;
    const [images, nearest] = await Promise.all([get(`${path}/images?order=doubtful&offset=${offset}&n=${N}`), get(`${path}/nearest`)]);
    this.total = images.total;
    this.near = [...nearest.known, ...nearest.new];
    this.drawHead(); this.drawSide(nearest);
    this.grid.show(images.items);
    this.shown.textContent = images.total > N ? `Least sure first. Showing ${offset + 1} to ${Math.min(offset + N, images.total)} of ${images.total.toLocaleString("en")} (Page Down for more).` : "Least sure first.";
    if (!isSame) window.scrollTo(0, 0);
  }

  finish() {
    this.head.replaceChildren(h("h2", { text: "All categories are approved." }), h("p", { text: "Export the results with nngcd export, or train on them with nngcd fit --from-review." }));
    this.side.replaceChildren(); this.grid.show([]); this.bar.replaceChildren(); this.shown.textContent = "";
  }

  drawHead() {
    const one = this.category;
    const facts = [counted(one.size, "image"), one.n_labelled ? `${one.n_labelled.toLocaleString("en")} labelled` : "", one.n_unsure ? `${one.n_unsure.toLocaleString("en")} unsure` : "",
      one.confidence === null ? "" : `${percent(one.confidence)} sure on average`, one.is_approved ? "approved" : "", `${this.open.length} left`];
    this.head.replaceChildren(h("h2", {}, h("span", { class: "name", text: one.name }), badge(one.kind)), h("p", { class: "quiet", text: facts.filter(Boolean).join(" · ") }), h("h3", { text: "Typical" }), strip(one.typical));
  }

  drawBar() {
    if (!this.category) return;
    const n = this.grid.selected.size;
    const button = (key, text, act, kind = "") => h("button", { type: "button", class: kind, disabled: !!run.why_read_only, onclick: act }, text, " ", h("kbd", { text: key }));
    const whole = [button("A", "Approve", () => this.approve(), "main"), button("R", "Rename", () => this.rename()), button("M", "Merge", () => this.merge()), button("S", "Split", () => this.split())];
    const some = [button("G", "Move to…", () => this.move()), button("N", "New category", () => this.fresh())];
    this.bar.replaceChildren(...(n ? [h("strong", { text: `${n} selected` }), ...some] : whole), button("X", n ? "Reject" : "Reject…", () => this.reject()));
  }

  drawSide(nearest) {
    let number = 0;
    const one = (other) => {
      const digit = (number += 1);
      return h("button", { type: "button", class: "near", disabled: !!run.why_read_only, onclick: () => this.neighbour(digit) }, h("kbd", { text: digit }), ...other.typical.slice(0, 3).map((id) => picture(id)),
        h("span", { class: "label", text: other.name }), h("small", { text: `${percent(Math.max(0, other.similarity))} similar` }));
    };
    this.side.replaceChildren(h("h3", { text: "Nearest known" }), ...nearest.known.map(one), h("h3", { text: "Nearest new" }), ...nearest.new.map(one),
      h("p", { class: "quiet", text: "Press a number to merge this category into that one, or to move the selected images there." }));
  }

  next(step = 1) {
    const at = this.open.findIndex((one) => one.id === this.category?.id);
    const to = this.open[Math.max(0, Math.min(this.open.length - 1, at + step))];
    if (to && to.id !== this.category?.id) this.app.tried(async () => this.put(await get(`/api/categories/${encodeURIComponent(to.id)}`)));
  }
  /** After a decision about the whole category: the one that takes its place. */
  onward() { this.category = null; return this.show(); }

  approve() {
    const { id } = this.category;
    return this.app.act(() => edit({ op: "approve", category: id }), () => this.onward());
  }
  async rename() {
    const { id, name } = this.category;
    const given = await askName("Name this category", { value: name === id ? "" : name, without: id, hint: "Enter saves. Enter the name of another category to merge the two." });
    if (!given) return;
    if (given.category) { await this.mergeInto(given.category, true); return; }
    await this.app.act(() => edit({ op: "rename", category: id, name: given.name }));
  }
  async merge() {
    const given = await askName("Merge with which category?", { without: this.category.id });
    if (given?.category) await this.mergeInto(given.category); else if (given) this.app.say(`There is no category called “${given.name}”.`);
  }
  async mergeInto(other, isAsked = false) {
    const { id, name, size } = this.category;
    if (isAsked && !(await confirm("Merge the two?", `“${other.name}” already exists, with ${counted(other.size, "image")}. Add the ${counted(size, "image")} of ${name} to it?`, "Merge"))) return;
    await this.app.act(() => edit({ op: "merge", categories: [id, other.id], to: other.id }), () => this.onward());
  }
  split() { this.app.open("split", this.category.id); }

  ids() { return this.grid.chosen.map((one) => one.id); }
  async move() {
    const images = this.ids();
    if (!images.length) { this.app.say("Select images first: click them, or use the arrow keys and Space."); return; }
    const given = await askName(`Move ${counted(images.length, "image")} to…`, { without: this.category.id, hint: "A new name makes a new category." });
    if (given) await this.app.act(() => edit(given.category ? { op: "move", images, to: given.category.id } : { op: "move", images, name: given.name }));
  }
  fresh() {
    const images = this.ids();
    if (!images.length) { this.app.say("Select images first: click them, or use the arrow keys and Space."); return; }
    this.app.act(() => edit({ op: "move", images }));
  }
  async reject() {
    const images = this.ids(), { id, name, size } = this.category;
    if (images.length) { await this.app.act(() => edit({ op: "reject", images })); return; }
    if (await confirm("Reject the whole category?", `The ${counted(size, "image")} of ${name} will be removed from all categories. Press U to undo.`, "Reject all")) {
      await this.app.act(() => edit({ op: "reject", category: id }), () => this.onward());
    }
  }
  neighbour(digit) {
    const other = this.near[digit - 1], images = this.ids();
    if (!other) return;
    if (images.length) this.app.act(() => edit({ op: "move", images, to: other.id }));
    else this.mergeInto(other);
  }
  async find() {
    const image = this.grid.image;
    if (!image) { this.app.say("Go to an image first, with the arrow keys."); return; }
    await this.app.tried(async () => {
      const { items } = await get(`/api/similar/${encodeURIComponent(image.id)}?n=${N}`);
      this.similar = image;
      this.grid.show(items);
      this.shown.textContent = `Images similar to ${image.file_name}, from all categories. Press Escape to go back.`;
    });
  }
  more(step) {
    const offset = this.offset + step * N;
    if (!this.similar && offset >= 0 && offset < this.total) this.app.tried(() => this.put(this.category, offset));
  }

  key(event) {
    if (event.key === "Escape" && this.similar) { this.similar = null; this.app.tried(() => this.put(this.category, this.offset)); return true; }
    if (!this.category) return false;
    if (this.grid.key(event)) return true;
    if (/^[1-9]$/.test(event.key)) { this.neighbour(Number(event.key)); return true; }
    const act = { j: () => this.next(), k: () => this.next(-1), a: () => this.approve(), r: () => this.rename(), m: () => this.merge(), s: () => this.split(), x: () => this.reject(),
      g: () => this.move(), n: () => this.fresh(), f: () => this.find(), z: () => this.grid.image && zoom(this.grid.image), pagedown: () => this.more(1), pageup: () => this.more(-1) }[event.key.toLowerCase()];
    act?.();
    return !!act;
  }
}
