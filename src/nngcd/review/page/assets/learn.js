/** Train a new run on what was decided here: how many labels there are, how far the training is, what it changed. */
import { counted, h, number } from "./dom.js";
import { get, run, send } from "./api.js";
/** @import {App} from "./main.js" */

/**
 * @typedef {Object} Changes
 * @property {number} n_images
 * @property {number} n_moved
 * @property {{from: string, to: string, n: number}[]} moved
 * @property {string[]} appeared
 * @property {string[]} vanished
 *
 * @typedef {Object} Learning
 * @property {"idle"|"running"|"done"|"failed"} state
 * @property {number} labels
 * @property {string} line
 * @property {number} share
 * @property {string|null} run the new run folder
 * @property {boolean} can_resume
 * @property {Changes|null} changes
 */

const SECOND = 1000;
const MOST_LISTED = 12;

export class Learn {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "learn" });
    /** @type {Learning|null} */
    this.learning = null;
    this.timer = 0;
  }

  async show() {
    this.draw(await get("/api/learn"));
  }

  /** @param {Learning} learning */
  draw(learning) {
    const before = this.learning?.state;
    this.learning = learning;
    const parts = {
      idle: () => this.idle(),
      running: () => this.running(),
      done: () => this.done(),
      failed: () => this.failed(),
    };
    const hadFocus = this.element.contains(document.activeElement);
    this.element.replaceChildren(h("h2", { text: "Learn from this" }), ...parts[learning.state]());
    if (hadFocus) this.element.querySelector("button")?.focus({ preventScroll: true });
    if (before === "running" && learning.state === "done") this.app.say("The new run is finished.");
    clearTimeout(this.timer);
    if (learning.state === "running") this.timer = setTimeout(() => this.look(), SECOND);
  }

  /** Ask again while this screen is shown. */
  look() {
    if (this.app.screen !== this) return;
    get("/api/learn").then(
      (learning) => this.draw(learning),
      () => {
        this.timer = setTimeout(() => this.look(), 5 * SECOND);
      },
    );
  }

  get here() {
    return /** @type {Learning} */ (this.learning);
  }

  /** @param {string} text */
  startButton(text) {
    const isOff = !!run.why_read_only || !run.can_undo;
    return h(
      "p",
      { class: "buttons" },
      h("button", { type: "button", class: "main", disabled: isOff, onclick: () => this.start(), text }),
    );
  }

  idle() {
    const { labels, can_resume: canResume } = this.here;
    const has = `The model can now learn from ${counted(labels, "label")}: those it had, and those you gave by naming, approving, merging and moving.`;
    const what =
      "This trains a new run, which starts with your categories and their names, and looks for new ones among the unlabelled images. This run stays as it is.";
    const nothing = run.can_undo ? null : h("p", { class: "quiet", text: "First name, approve or correct something." });
    return [
      h("p", { text: has }),
      h("p", { text: what }),
      nothing,
      this.startButton(canResume ? "Continue training" : "Start learning"),
    ].filter(isThere);
  }

  running() {
    const { line, share } = this.here;
    const bar = h("progress", { max: 1, value: share, "aria-label": "Progress of this step" });
    const text =
      "You can keep reviewing, but changes from now on are not part of this training. If you stop nngcd review, the training stops as well.";
    const stop = h("button", { type: "button", onclick: () => this.stop(), text: "Stop" });
    return [
      h("p", { class: "step", text: line }),
      bar,
      h("p", { class: "quiet", text }),
      h("p", { class: "buttons" }, stop),
    ];
  }

  failed() {
    return [h("p", { class: "failed", text: `The training failed: ${this.here.line}` }), this.startButton("Try again")];
  }

  done() {
    const { run: folder, changes } = this.here;
    const command = `nngcd review ${folder}`;
    return [
      h("p", {
        text: "The new run is finished. It carries over the names of your categories. Open it with this command:",
      }),
      h("pre", { class: "command" }, h("code", { text: command })),
      ...(changes ? this.changed(changes) : []),
      this.startButton("Learn again"),
    ];
  }

  /** @param {Changes} changes */
  changed({ n_images: nImages, n_moved: nMoved, moved, appeared, vanished }) {
    const line = (/** @type {{from: string, to: string, n: number}} */ one) =>
      h("tr", {}, h("td", { text: one.from }), h("td", { text: one.to }), h("td", { text: number(one.n) }));
    const head = h(
      "thead",
      {},
      h("tr", {}, ...["From", "To", "Images"].map((text) => h("th", { scope: "col", text }))),
    );
    const nMore = moved.length - MOST_LISTED;
    return [
      h("h3", { text: "What changed" }),
      h("p", { text: `${number(nMoved)} of ${counted(nImages, "image")} are in another category.` }),
      named("New categories", appeared),
      named("Categories that are gone", vanished),
      moved.length ? h("table", {}, head, h("tbody", {}, ...moved.slice(0, MOST_LISTED).map(line))) : null,
      nMore > 0 ? h("p", { class: "quiet", text: `and ${counted(nMore, "smaller move")}` }) : null,
    ].filter(isThere);
  }

  start() {
    return this.app.tried(async () => this.draw(await send("POST", "/api/learn", { version: run.version })));
  }

  stop() {
    return this.app.tried(async () => this.draw(await send("DELETE", "/api/learn")));
  }

  key() {
    return false;
  }
}

/** @param {string} title @param {string[]} names */
function named(title, names) {
  if (!names.length) return null;
  const shown = names.slice(0, MOST_LISTED).join(", ");
  return h("p", {
    text: `${title}: ${shown}${names.length > MOST_LISTED ? ` and ${number(names.length - MOST_LISTED)} more` : ""}.`,
  });
}

/** @template T @param {T|null} one @returns {one is T} */
const isThere = (one) => one !== null;
