/** One image at a time, the unsure and doubtful ones first, and its three best categories. */
import { badge, counted, h, keyButton, percent, picture, strip } from "./dom.js";
import { edit, get, run } from "./api.js";
import { askName } from "./dialogs.js";
import { zoom } from "./zoom.js";
/** @import {App} from "./main.js" */
/** @import {Category, ImageFacts} from "./types.js" */

export class Unsure {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "unsure" });
    this.nSkipped = 0;
    /** @type {(ImageFacts & {choices: Category[]})|null} */
    this.image = null;
  }

  async show() {
    const { items } = await get(`/api/unsure?n=1&offset=${this.nSkipped}`);
    this.image = items[0] ?? null;
    if (this.image) this.draw(this.image);
    else this.finish();
  }

  finish() {
    const text = this.nSkipped
      ? `You skipped ${counted(this.nSkipped, "image")}. Reload the page to see them again.`
      : "You have settled every image.";
    const said = h("section", {}, h("h2", { text: "No images are left." }), h("p", { class: "quiet", text }));
    this.element.replaceChildren(said);
  }

  /** @param {ImageFacts & {choices: Category[]}} image */
  draw(image) {
    const left = image.is_unsure
      ? `${counted(run.n_unsure - this.nSkipped, "unsure image")} left`
      : "most doubtful first";
    const facts = `${image.file_name} · ${percent(image.confidence)} sure · ${left}`;
    this.element.replaceChildren(
      h(
        "section",
        {},
        h("h2", { text: "Where does this belong?" }),
        h("p", { class: "quiet", text: facts }),
        h("div", { class: "large" }, picture(image.id, { size: 512, alt: image.file_name })),
      ),
      h("section", { class: "choices" }, ...image.choices.map((one, i) => this.choice(one, i)), this.actions()),
    );
  }

  /** @param {Category} one @param {number} i */
  choice(one, i) {
    return h(
      "button",
      { type: "button", class: "choice", disabled: !!run.why_read_only, onclick: () => this.choose(i) },
      h("kbd", { text: i + 1 }),
      strip(one.typical, 4),
      h("span", { class: "label", text: one.name }),
      badge(one.kind),
    );
  }

  actions() {
    const isOff = !!run.why_read_only;
    return h(
      "div",
      { class: "actions" },
      keyButton("G", "Another…", () => this.other(), { isOff }),
      keyButton("N", "New category", () => this.put({}), { isOff }),
      keyButton("X", "Reject", () => this.reject(), { isOff }),
      keyButton("0", "Skip", () => this.skip()),
    );
  }

  get images() {
    return this.image ? [this.image.id] : [];
  }

  /** @param {{to?: string, name?: string}} where */
  put(where) {
    return this.app.act(() => edit({ op: "move", images: this.images, ...where }));
  }
  reject() {
    return this.app.act(() => edit({ op: "reject", images: this.images }));
  }
  /** @param {number} i */
  choose(i) {
    const to = this.image?.choices[i];
    return to && this.put({ to: to.id });
  }
  skip() {
    this.nSkipped += 1;
    return this.app.again();
  }
  async other() {
    const given = await askName("Where does this image belong?", { hint: "A new name makes a new category." });
    if (given) await this.put(given.category ? { to: given.category.id } : { name: given.name });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.image) return false;
    const key = event.key.toLowerCase();
    if (/^[1-3]$/.test(key)) return this.choose(Number(key) - 1);
    const image = this.image;
    const act = {
      0: () => this.skip(),
      j: () => this.skip(),
      n: () => this.put({}),
      x: () => this.reject(),
      g: () => this.other(),
      z: () => zoom([image], 0),
    }[key];
    return act ? act() : false;
  }
}
