/** Images in pages, and what can be done with them: the part that the queue and the map share. */
import { counted, h, keyButton, number } from "./dom.js";
import { edit, get, run } from "./api.js";
import { askName } from "./dialogs.js";
import { Grid } from "./grid.js";
import { zoom } from "./zoom.js";
/** @import {App} from "./main.js" */
/** @import {Category, ImageFacts, ImagePart, ImageSource} from "./types.js" */

/** Images in a page. */
const N = 120;
const SELECT_FIRST = "Select images first: click them, or use the arrow keys and Space.";

/**
 * @typedef {Object} Subject what the images shown are
 * @property {ImageSource} source
 * @property {string} words said above them
 * @property {boolean} [withNames] whether to say of what category each is
 * @property {Category} [category] whose images they are
 * @property {{n: number, named: Object}} [all] what an action is about when no image is chosen: how many images, and
 *   how an edit names them
 */

export class Sheet {
  /** @param {App} app @param {() => void} onSelect called when the selection changes */
  constructor(app, onSelect) {
    this.app = app;
    this.shown = h("p", { class: "shown" });
    this.grid = new Grid(onSelect);
    this.pages = h("div", { class: "actions pages" });
    this.element = h("div", {}, this.shown, this.grid.element, this.pages);
    /** @type {Subject|null} */
    this.subject = null;
    /** @type {{subject: Subject, offset: number}|null} */
    this.before = null; // what "find similar" left
    this.offset = this.total = 0;
  }

  /**
   * @param {Subject} subject
   * @param {{offset?: number, keep?: boolean, part?: ImagePart, before?: Sheet["before"]}} [how] `keep` leaves the
   *   cursor; `part` is already here; `before` is what Escape goes back to
   * @returns {Promise<void>}
   */
  async open(subject, { offset = 0, keep = false, part, before = null } = {}) {
    const found = part ?? (await subject.source(offset, N));
    if (offset && offset >= found.total) return this.open(subject, { offset: Math.max(0, offset - N), keep, before });
    [this.subject, this.offset, this.total, this.before] = [subject, offset, found.total, before];
    this.grid.show(found.items, { keep, withNames: subject.withNames });
    this.draw();
  }

  draw() {
    const { offset, total } = this;
    const to = Math.min(offset + N, total);
    const part = total > N ? ` Showing ${number(offset + 1)} to ${number(to)} of ${number(total)}.` : "";
    this.shown.textContent = (this.subject?.words ?? "") + part;
    const turn = (/** @type {string} */ key, /** @type {string} */ text, /** @type {number} */ step) =>
      keyButton(key, text, () => this.turn(step), { isOff: !this.hasPage(step) });
    this.pages.replaceChildren(...(total > N ? [turn("Page ↑", "Previous", -1), turn("Page ↓", "More", 1)] : []));
  }

  clear() {
    this.subject = this.before = null;
    this.total = 0;
    this.grid.show([]);
    this.draw();
  }

  /** Buttons of the actions, for the bar of the screen. */
  buttons() {
    const isOff = !!run.why_read_only || !(this.grid.chosen.length || this.subject?.all);
    return [
      keyButton("G", "Move to…", () => this.move(), { isOff }),
      keyButton("N", "New category", () => this.fresh(), { isOff }),
    ];
  }

  /** How many images an action would be about, in words. */
  chosenWords() {
    const n = this.grid.selected.size;
    if (n) return `${number(n)} selected`;
    if (this.grid.image) return "1 image";
    return this.subject?.all ? `all ${counted(this.subject.all.n, "image")}` : "";
  }

  /** @returns {{n: number, named: Object}|null} what an action is about */
  chosen() {
    const images = this.grid.chosen.map((one) => one.id);
    if (images.length) return { n: images.length, named: { images } };
    return this.subject?.all ?? null;
  }

  /** @template T @param {(chosen: {n: number, named: Object}) => T} act @returns {T|void} */
  withChosen(act) {
    const chosen = this.chosen();
    return chosen ? act(chosen) : this.app.say(SELECT_FIRST);
  }

  /** @param {string} to the id of a category */
  moveTo(to) {
    return this.withChosen(({ named }) => this.app.act(() => edit({ op: "move", ...named, to })));
  }

  move() {
    return this.withChosen(async ({ n, named }) => {
      const home = this.before?.subject.category; // images found elsewhere are most often wanted here
      const how = home ? { value: home.name } : { without: this.subject?.category?.id };
      const given = await askName(`Move ${counted(n, "image")} to…`, {
        hint: "A new name makes a new category.",
        ...how,
      });
      if (!given) return;
      const to = given.category ? { to: given.category.id } : { name: given.name };
      await this.app.act(() => edit({ op: "move", ...named, ...to }));
    });
  }

  fresh() {
    return this.withChosen(({ named }) => this.app.act(() => edit({ op: "move", ...named })));
  }

  reject() {
    return this.withChosen(({ named }) => this.app.act(() => edit({ op: "reject", ...named })));
  }

  async find() {
    const image = this.grid.image;
    if (!image) return this.app.say("Go to an image first, with the arrow keys.");
    const before = this.before ?? (this.subject && { subject: this.subject, offset: this.offset });
    const words = `Images similar to ${image.file_name}, from all categories. Escape goes back.`;
    const path = `/api/similar/${encodeURIComponent(image.id)}`;
    const source = (/** @type {number} */ _offset, /** @type {number} */ n) => get(`${path}?n=${n}`);
    return this.app.tried(() => this.open({ source, words, withNames: true }, { before }));
  }

  /** Back to what was shown before "find similar". */
  back() {
    const { before } = this;
    if (before) this.app.tried(() => this.open(before.subject, { offset: before.offset }));
  }

  /** Show the same images again, after an edit. */
  again() {
    const { before, offset, subject } = this;
    return subject ? this.open(subject, { offset, keep: true, before }) : undefined;
  }

  /** @param {number} step */
  hasPage(step) {
    const offset = this.offset + step * N;
    return !this.before && offset >= 0 && offset < this.total;
  }

  /** @param {number} step pages forward */
  turn(step) {
    const { subject } = this;
    if (!subject || !this.hasPage(step)) return;
    this.app.tried(async () => {
      await this.open(subject, { offset: this.offset + step * N });
      this.grid.go(0);
    });
  }

  zoom() {
    if (this.grid.image) zoom(this.grid.items, this.grid.at, (at) => this.grid.go(at));
    else this.app.say("Go to an image first, with the arrow keys.");
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  key(event) {
    if (this.grid.key(event)) return true;
    if (event.key === "Escape" && this.before) {
      this.back();
      return true;
    }
    const act = {
      g: () => this.move(),
      n: () => this.fresh(),
      x: () => this.reject(),
      f: () => this.find(),
      z: () => this.zoom(),
      pagedown: () => this.turn(1),
      pageup: () => this.turn(-1),
    }[event.key.toLowerCase()];
    act?.();
    return !!act;
  }
}
