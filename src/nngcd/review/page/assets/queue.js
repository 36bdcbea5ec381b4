/** One category at a time, the one whose approval settles most images first. */
import { badge, counted, h, keyButton, number, percent, strip } from "./dom.js";
import { categoryPath, edit, get, run } from "./api.js";
import { askName, confirm } from "./dialogs.js";
import { Neighbours } from "./neighbours.js";
import { Sheet } from "./sheet.js";
/** @import {App} from "./main.js" */
/** @import {Category, ImagePart} from "./types.js" */
/** @typedef {{category: Category, images: ImagePart, nearest: {known: Category[], new: Category[]}}} Loaded */

/** Categories of the list that are asked for at once. */
const N_LISTED = 400;

export class Queue {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {Category|null} */
    this.category = null;
    /** @type {Category[]} */
    this.list = []; // the open ones, in their order; perhaps not yet all of them
    this.nOpen = this.at = 0;
    /** @type {{id: string, version: number, loaded: Promise<Loaded|null>}|null} */
    this.ahead = null;
    this.head = h("header", { class: "head" });
    this.bar = h("div", { class: "actions bar-of-actions" });
    this.sheet = new Sheet(app, () => this.drawBar());
    this.neighbours = new Neighbours((other) => this.toNeighbour(other));
    const work = h("section", { class: "work" }, this.bar, this.sheet.element);
    this.element = h("div", { class: "queue" }, this.head, this.neighbours.element, work);
  }

  /** What `show` is given to come back here. */
  place() {
    return this.category?.id;
  }

  /** @param {string} [id] a category; without one, stay at this one if it is still there, else the next open one */
  async show(id) {
    const wanted = id ?? this.category?.id;
    const [here] = await Promise.all([wanted ? this.load(wanted) : null, this.loadList()]);
    if (here) this.put(here);
    else await this.showOpen();
  }

  /** The open category at the present place of the list, or the last one. */
  async showOpen() {
    const next = this.list[Math.min(this.at, this.list.length - 1)];
    const found = next ? await this.load(next.id) : null;
    if (found) this.put(found);
    else this.finish();
  }

  /** @param {number} [offset] of the part of the list */
  async loadList(offset = 0) {
    const path = `/api/categories?sort=queue&status=open&typical=0&n=${N_LISTED}&offset=${offset}`;
    const { items, total } = await get(path);
    this.list = [...this.list.slice(0, offset), ...items];
    this.nOpen = total;
  }

  /** @param {string} id @returns {Promise<Loaded|null>} null where the category is retired */
  load(id) {
    const { ahead } = this;
    return ahead?.id === id && ahead.version === run.version ? ahead.loaded : this.ask(id);
  }

  /** Ask for the category that is probably next, while a person looks at this one. */
  prepare() {
    const id = this.list[this.list.findIndex((one) => one.id === this.category?.id) + 1]?.id;
    if (!id || !this.category || (this.ahead?.id === id && this.ahead.version === run.version)) return;
    this.ahead = { id, version: run.version, loaded: this.ask(id) };
    this.app.quietly(() => /** @type {Promise<any>} */ (this.ahead?.loaded));
  }

  /** @param {string} id @returns {Promise<Loaded|null>} */
  async ask(id) {
    const offset = this.sheet.offset && id === this.category?.id && !this.sheet.before ? this.sheet.offset : 0;
    const loaded = await get(`${categoryPath(id)}/screen?offset=${offset}&n=120`);
    return loaded.category ? loaded : null;
  }

  /** @param {Loaded} loaded */
  put({ category, images, nearest }) {
    const isSame = this.category?.id === category.id;
    this.category = category;
    const at = this.list.findIndex((one) => one.id === category.id);
    if (at >= 0) this.at = at;
    this.drawHead(category);
    this.neighbours.draw(nearest);
    const path = `${categoryPath(category.id)}/images?order=doubtful`;
    const subject = {
      source: (/** @type {number} */ offset, /** @type {number} */ n) => get(`${path}&offset=${offset}&n=${n}`),
      words: "Least sure first.",
      category,
    };
    if (isSame && this.sheet.before) return this.sheet.again();
    if (!isSame) window.scrollTo(0, 0);
    this.prepare();
    const offset = isSame ? this.sheet.offset : 0;
    return this.sheet.open(subject, { offset, keep: isSame, part: images });
  }

  finish() {
    this.category = null;
    const text = "Press “Learn” above to train on what you decided, or export the results with nngcd export.";
    this.head.replaceChildren(h("h2", { text: "All categories are approved." }), h("p", { text }));
    this.neighbours.element.replaceChildren();
    this.sheet.clear();
    this.bar.replaceChildren();
  }

  /** @param {Category} one */
  drawHead(one) {
    const facts = [
      counted(one.size, "image"),
      one.n_labelled ? `${number(one.n_labelled)} labelled` : "",
      one.n_unsure ? `${number(one.n_unsure)} unsure` : "",
      one.confidence === null ? "" : `${percent(one.confidence)} sure on average`,
      one.is_approved ? "approved" : "",
      `${counted(this.nOpen, "category")} left`,
    ];
    this.head.replaceChildren(
      h("h2", {}, h("span", { class: "name", text: one.name }), badge(one.kind)),
      h("p", { class: "quiet", text: facts.filter(Boolean).join(" · ") }),
      h("h3", { text: "Typical" }),
      strip(one.typical),
    );
  }

  drawBar() {
    if (!this.category) return;
    const isOff = !!run.why_read_only;
    const { is_approved: isApproved } = this.category;
    const chosen = this.sheet.chosenWords();
    // Always the same buttons, so that nothing moves when an image is selected.
    this.bar.replaceChildren(
      keyButton("A", isApproved ? "Take back approval" : "Approve", () => this.approve(), {
        isMain: !isApproved,
        isOff,
      }),
      keyButton("R", "Rename", () => this.rename(), { isOff }),
      keyButton("M", "Merge", () => this.merge(), { isOff }),
      keyButton("S", "Split", () => this.split(), { isOff }),
      ...this.sheet.buttons(),
      keyButton("X", "Reject", () => this.reject(), { isOff }),
      h("span", { class: "chosen", text: chosen }),
    );
    this.neighbours.tell(chosen);
  }

  /** @param {number} step */
  next(step) {
    this.app.tried(async () => {
      const at = this.list.findIndex((one) => one.id === this.category?.id);
      const to = Math.max(0, (at < 0 ? this.at - Number(step > 0) : at) + step);
      if (to >= this.list.length && this.list.length < this.nOpen) await this.loadList(this.list.length);
      const found = to < this.list.length && to !== at ? await this.load(this.list[to].id) : null;
      if (found) await this.put(found);
      else this.app.say(step > 0 ? "This is the last open category." : "This is the first open category.");
    });
  }

  /** After a decision about the whole category: the one that takes its place. */
  async onward() {
    this.list = this.list.filter((one) => one.id !== this.category?.id);
    this.nOpen -= 1;
    this.category = null;
    if (!this.list.length) await this.loadList();
    await this.showOpen();
    // The order may have changed; nobody waits for it.
    this.app.quietly(async () => {
      await this.loadList();
      this.prepare();
    });
  }

  get here() {
    return /** @type {Category} */ (this.category);
  }

  approve() {
    const { id, is_approved: isApproved } = this.here;
    if (isApproved) return this.app.act(() => edit({ op: "unapprove", category: id }));
    return this.app.act(
      async () => {
        const { version } = run;
        const done = await edit({ op: "approve", category: id });
        // An approval changes nothing of another category, so what was asked for ahead still holds.
        if (this.ahead?.version === version) this.ahead.version = run.version;
        return done;
      },
      () => this.onward(),
    );
  }

  async rename() {
    const { id, name } = this.here;
    const hint = "Enter saves. Enter the name of another category to merge the two.";
    const given = await askName("Name this category", { value: name === id ? "" : name, without: id, hint });
    if (given?.category) return this.mergeNamed(given.category);
    return given && this.app.act(() => edit({ op: "rename", category: id, name: given.name }));
  }

  async merge() {
    const given = await askName("Merge with which category?", { without: this.here.id });
    if (given?.category) await this.mergeInto(given.category);
    else if (given) this.app.say(`There is no category called “${given.name}”.`);
  }

  /** @param {Category} other whose name was given to this one */
  async mergeNamed(other) {
    const { name, size } = this.here;
    const text = `“${other.name}” already exists, with ${counted(other.size, "image")}. Add the ${counted(size, "image")} of ${name} to it?`;
    if (await confirm("Merge the two?", text, "Merge")) await this.mergeInto(other);
  }

  /** @param {Category} other */
  mergeInto(other) {
    const { id } = this.here;
    return this.app.act(
      () => edit({ op: "merge", categories: [id, other.id], to: other.id }),
      () => this.onward(),
    );
  }

  split() {
    return this.app.open("split", this.here.id);
  }

  async reject() {
    if (this.sheet.chosen()) return this.sheet.reject();
    const { id, name, size } = this.here;
    const text = `The ${counted(size, "image")} of ${name} will be removed from all categories. Press U to undo.`;
    if (!(await confirm("Reject the whole category?", text, "Reject all"))) return undefined;
    return this.app.act(
      () => edit({ op: "reject", category: id }),
      () => this.onward(),
    );
  }

  /** @param {Category} other */
  toNeighbour(other) {
    return this.sheet.chosen() ? this.sheet.moveTo(other.id) : this.mergeInto(other);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.category) return false;
    const key = event.key.toLowerCase();
    if (key === "x") return this.reject();
    if (this.sheet.key(event)) return true;
    const other = this.neighbours.numbered(key);
    if (other) return this.toNeighbour(other);
    const act = {
      j: () => this.next(1),
      k: () => this.next(-1),
      a: () => this.approve(),
      r: () => this.rename(),
      m: () => this.merge(),
      s: () => this.split(),
    }[key];
    return act ? act() : false;
  }
}
