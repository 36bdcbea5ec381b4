/** A category as two to four proposed parts; images can be moved between them before the split is accepted. */
import { counted, h, keyButton } from "./dom.js";
import { categoryPath, edit, get, run } from "./api.js";
import { Grid } from "./grid.js";
import { zoom } from "./zoom.js";
/** @import {App} from "./main.js" */
/** @import {Category, ImageFacts} from "./types.js" */

/** Of all parts together: pictures in the document. */
const MOST_SHOWN = 360;
const MOST_IN_PART = 120;

export class Split {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "split" });
    /** @type {Set<string>} */
    this.skipped = new Set();
    /** @type {string|null} */
    this.wanted = null; // the category that the queue sent here
    /** @type {Category|null} */
    this.category = null;
    /** @type {ImageFacts[][]} */
    this.parts = [];
    /** @type {Grid[]} */
    this.grids = [];
    this.part = 0; // where the cursor is
  }

  /** @param {string} [id] which category; without one, the next that may be several things */
  async show(id) {
    this.wanted = id ?? this.wanted;
    this.category = this.wanted ? await this.find(this.wanted) : await this.next();
    if (this.category) return this.propose(0);
    this.wanted = null;
    const text = "To split a category anyway, press S in the queue.";
    return this.element.replaceChildren(
      h("h2", { text: "No category looks mixed." }),
      h("p", { class: "quiet", text }),
    );
  }

  /** @param {string} id @returns {Promise<Category|null>} */
  async find(id) {
    return (await get(`/api/categories?typical=0&id=${encodeURIComponent(id)}`)).items[0] ?? null;
  }

  /** @returns {Promise<Category|null>} */
  async next() {
    const { items } = await get(`/api/suggestions?kind=split&n=${this.skipped.size + 1}`);
    return items.find((/** @type {Category} */ one) => !this.skipped.has(one.id)) ?? null;
  }

  get here() {
    return /** @type {Category} */ (this.category);
  }

  /** @param {number} n how many parts; 0 for what is most likely */
  async propose(n) {
    const { parts } = await get(`${categoryPath(this.here.id)}/parts?n=${n}`);
    this.parts = parts;
    this.part = 0;
    this.grids = this.parts.map(
      (_, part) =>
        new Grid(
          () => this.drawBar(),
          (at) => this.moveOn(part, at),
        ),
    );
    this.draw();
  }

  draw() {
    const { name, why } = this.here;
    this.bar = h("div", { class: "actions bar-of-actions" });
    this.titles = this.parts.map(() => h("p", { class: "quiet" }));
    const hint =
      "A click moves an image to the next part. By keyboard: arrows, Space to select, G to move, J and K to change parts.";
    const column = (/** @type {Grid} */ grid, /** @type {number} */ part) =>
      h("section", { class: "side" }, h("h3", { text: `Part ${part + 1}` }), this.titles?.[part], grid.element);
    this.element.replaceChildren(
      h("h2", {}, "Is ", h("span", { class: "name", text: name }), ` ${this.parts.length} categories?`),
      h("p", { class: "quiet", text: `${why ? `It ${why}. ` : ""}${hint}` }),
      this.bar,
      h("div", { class: "sides", "data-n": this.parts.length }, ...this.grids.map(column)),
    );
    this.fill();
  }

  fill(keep = false) {
    const most = Math.min(MOST_IN_PART, Math.floor(MOST_SHOWN / this.parts.length));
    this.parts.forEach((part, i) => {
      this.grids[i].show(part.slice(0, most), { keep: keep && i === this.part });
      const more = part.length > most ? `, ${most} shown` : "";
      if (this.titles) this.titles[i].textContent = counted(part.length, "image") + more;
    });
    this.drawBar();
  }

  drawBar() {
    const isOff = !!run.why_read_only;
    const digits = [2, 3, 4].map((n) => keyButton(n, `${n} parts`, () => this.repropose(n)));
    const accept = keyButton("Enter", "Split", () => this.accept(), { isMain: true, isOff });
    const move = keyButton("G", "Move to next part", () => this.moveChosen(), { isOff: !this.grid?.chosen.length });
    this.bar?.replaceChildren(
      accept,
      ...digits,
      move,
      keyButton("N", "Do not split", () => this.skip()),
    );
  }

  get grid() {
    return this.grids[this.part];
  }

  /** @param {number} n */
  repropose(n) {
    return this.app.tried(() => this.propose(n));
  }

  /** @param {number} part @param {number} at */
  moveOn(part, at) {
    this.part = part;
    this.move([this.grids[part].items[at].id]);
  }

  moveChosen() {
    if (this.grid) this.move(this.grid.chosen.map((one) => one.id));
  }

  /** @param {string[]} ids images of the part with the cursor */
  move(ids) {
    const moved = new Set(ids);
    const from = this.parts[this.part];
    const to = (this.part + 1) % this.parts.length;
    this.parts[to] = [...from.filter((one) => moved.has(one.id)), ...this.parts[to]];
    this.parts[this.part] = from.filter((one) => !moved.has(one.id));
    this.fill(true);
  }

  accept() {
    const parts = this.parts.filter((part) => part.length).map((part) => part.map((one) => one.id));
    return this.app.act(
      () => edit({ op: "split", category: this.here.id, parts }),
      () => this.after(),
    );
  }

  skip() {
    this.skipped.add(this.here.id);
    return this.after();
  }

  /** Whoever came from the queue goes back there. */
  after() {
    const isFromQueue = this.wanted !== null;
    this.wanted = null;
    return isFromQueue ? this.app.open("queue") : this.app.again();
  }

  /** @param {number} step */
  turn(step) {
    const at = Math.max(0, this.grid.at);
    this.grid.clear();
    this.part = (this.part + step + this.parts.length) % this.parts.length;
    this.grid.go(at);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.category) return false;
    const key = event.key.toLowerCase();
    if (this.grid.key(event)) return true;
    if (/^[2-4]$/.test(key)) return this.repropose(Number(key));
    const act = {
      enter: () => this.accept(),
      g: () => this.moveChosen(),
      j: () => this.turn(1),
      k: () => this.turn(-1),
      n: () => this.skip(),
      escape: () => this.skip(),
      z: () => this.grid.image && zoom(this.grid.items, this.grid.at, (at) => this.grid.go(at)),
    }[key];
    return act ? act() : false;
  }
}
