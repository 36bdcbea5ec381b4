/** The page: its screens, its keys, what stands at the top. */
import { counted, h, number } from "./dom.js";
import * as api from "./api.js";
import { isOpen } from "./dialogs.js";
import { showKeys } from "./keys.js";
import { Learn } from "./learn.js";
import { Log } from "./log.js";
import { MapScreen } from "./map.js";
import { Queue } from "./queue.js";
import { Same } from "./same.js";
import { Split } from "./split.js";
import { Table } from "./table.js";
import { Unsure } from "./unsure.js";
/** @import {PageScreen, Run} from "./types.js" */

const $ = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
/** @type {Object<string, [string, new (app: App) => PageScreen & {place?: () => any}]>} */
const SCREENS = {
  queue: ["Queue", Queue],
  same: ["Same?", Same],
  split: ["Split?", Split],
  unsure: ["Unsure", Unsure],
  map: ["Map", MapScreen],
  table: ["Table", Table],
  log: ["Log", Log],
  learn: ["Learn", Learn],
};
const MOST_WAITING = 20;
/** @typedef {{name: string, what: any}} Place */

export class App {
  constructor() {
    /** @type {Object<string, PageScreen & {place?: () => any}>} */
    this.screens = {};
    this.name = "";
    this.nBusy = 0;
    /** @type {any[]} */
    this.waiting = []; // keys
    /** @type {(Place|null)[]} */
    this.trail = []; // where each edit of this window was made
    this.hasLetters = localStorage.getItem("letters") !== "off";
    history.replaceState(null, "", location.pathname + location.hash); // the token need not stay in the address
    $("undo").addEventListener("click", () => this.undo());
    $("redo").addEventListener("click", () => this.redo());
    $("help").addEventListener("click", () => this.help());
    document.addEventListener("keydown", (event) => this.key(event));
    // What sticks below the header has to know how high that is.
    new ResizeObserver(([{ target }]) => {
      const height =
        getComputedStyle(target).position === "sticky" ? /** @type {HTMLElement} */ (target).offsetHeight : 0;
      document.documentElement.style.setProperty("--top", `${height}px`);
    }).observe($("top"));
    api.onChange(() => this.changedElsewhere());
  }

  async start() {
    await api.refresh();
    // Not before: a screen that opens without the run stays empty.
    window.addEventListener("hashchange", () => this.open(location.hash.slice(1)));
    await this.open(location.hash.slice(1));
    api.follow();
  }

  /** @param {string} name @param {any} [what] a category to begin with */
  async open(name, what) {
    if (!(name in SCREENS)) name = "queue";
    if (name === this.name && what === undefined) return;
    this.name = name;
    if (location.hash.slice(1) !== name) history.replaceState(null, "", `#${name}`);
    this.screens[name] ??= new SCREENS[name][1](this);
    this.top();
    $("screen").replaceChildren(this.screen.element);
    window.scrollTo(0, 0);
    await this.tried(() => this.screen.show(what));
  }

  get screen() {
    return this.screens[this.name];
  }

  again() {
    return this.tried(() => this.screen.show());
  }

  changedElsewhere() {
    this.trail = [];
    this.top();
    this.say("Changed in another window. This one is now up to date.");
    this.again();
  }

  top() {
    const { run } = api;
    document.title = `${run.title} · nngcd review`;
    $("title").textContent = run.title;
    $("bar").style.setProperty("width", `${(100 * run.n_images_reviewed) / Math.max(1, run.n_images)}%`);
    $("progress").textContent =
      `${number(run.n_categories_reviewed)} of ${counted(run.n_categories, "category")} approved · ` +
      `${number(run.n_images_reviewed)} of ${counted(run.n_images, "image")} settled`;
    $("undo").toggleAttribute("disabled", !run.can_undo || !!run.why_read_only);
    $("redo").toggleAttribute("disabled", !run.can_redo || !!run.why_read_only);
    const notes = [run.why_read_only, run.why_no_pictures].filter(Boolean).join(" ");
    $("banner").hidden = !notes;
    $("banner").textContent = notes;
    $("tabs").replaceChildren(...Object.keys(SCREENS).map((name) => this.tab(name)));
  }

  /** @param {string} name */
  tab(name) {
    const n = name === "unsure" ? api.run.n_unsure : 0;
    const current = name === this.name ? "page" : null;
    return h(
      "a",
      { href: `#${name}`, "aria-current": current },
      SCREENS[name][0],
      n > 0 && h("span", { class: "count", text: ` ${number(n)}` }),
    );
  }

  /** @param {string} text */
  say(text) {
    $("said").textContent = text;
  }

  /**
   * Do something that takes a moment. Keys pressed meanwhile wait, so that they act on what is shown then.
   * @template T
   * @param {() => T|Promise<T>} work
   * @returns {Promise<T|undefined>}
   */
  async tried(work) {
    this.nBusy += 1;
    try {
      return await work();
    } catch (error) {
      this.say(/** @type {Error} */ (error).message);
      return undefined;
    } finally {
      this.nBusy -= 1;
      if (!this.nBusy && this.waiting.length) this.key(this.waiting.shift());
    }
  }

  /** Do something that nobody waits for; the next request says what went wrong. @param {() => Promise<any>} work */
  quietly(work) {
    work().catch(() => {});
  }

  /**
   * Do an edit, say what was done, show what comes next.
   * @param {() => Promise<Run>} work
   * @param {() => any} [next]
   */
  act(work, next = () => this.screen.show()) {
    const place = { name: this.name, what: this.screen.place?.() };
    return this.tried(async () => {
      const { words } = await work();
      this.trail.push(place);
      this.top();
      if (words) this.say(`${words}.`);
      await next();
    });
  }

  /** Take back the last edits; one that was made on this screen is shown again where it was made. */
  undo(n = 1) {
    if (!api.run.can_undo) return this.say("There is nothing to undo.");
    return this.tried(async () => {
      await api.undo(n);
      const place = this.trail.splice(-n)[0];
      this.top();
      this.say(n === 1 ? "Undone." : `${n} edits undone.`);
      await this.screen.show(place?.name === this.name ? place.what : undefined);
    });
  }

  redo() {
    return this.tried(async () => {
      await api.redo();
      this.trail.push(null);
      this.top();
      this.say("Redone.");
      await this.screen.show();
    });
  }

  help() {
    showKeys(this.hasLetters, (isOn) => {
      this.hasLetters = isOn;
      localStorage.setItem("letters", isOn ? "on" : "off");
    });
  }

  /** @param {KeyboardEvent} event */
  wait(event) {
    if (this.waiting.length < MOST_WAITING && !event.repeat) {
      const { key, shiftKey, ctrlKey, metaKey } = event;
      this.waiting.push({ key, shiftKey, ctrlKey, metaKey, target: document.body, preventDefault() {} });
    }
    if (!event.ctrlKey && !event.metaKey && event.key !== "Tab") event.preventDefault();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (isOpen() || event.altKey || event.defaultPrevented || isTyping(event)) return;
    if (this.nBusy) this.wait(event);
    else if (this.isWanted(event) && this.pressed(event)) event.preventDefault();
  }

  /** Whether a key may be one of the page's, and not the browser's or a button's. @param {KeyboardEvent} event */
  isWanted(event) {
    const isCommand = event.ctrlKey || event.metaKey;
    if (isCommand) return /^[az]$/i.test(event.key);
    if (!this.hasLetters && /^[a-z0-9/]$/i.test(event.key)) return false;
    const has = /** @type {Object<string, string>} */ ({ " ": "button, a, input", Enter: "button, a" })[event.key];
    return !has || !(/** @type {HTMLElement} */ (event.target).closest?.(has));
  }

  /** @param {KeyboardEvent} event @returns {boolean} whether it meant something */
  pressed(event) {
    const letter = event.key.toLowerCase();
    const isCommand = event.ctrlKey || event.metaKey;
    if (isCommand ? letter === "z" : letter === "u") event.shiftKey ? this.redo() : this.undo();
    else if (event.key === "?") this.help();
    else if (this.screen?.key(event) === false) return event.key === "/" && !!this.open("table", "");
    return true;
  }
}

/** Whether a key goes into a field. @param {KeyboardEvent} event */
function isTyping(event) {
  const field = /** @type {HTMLElement} */ (event.target).closest?.("input, select, textarea");
  return !!field && !(field instanceof HTMLInputElement && field.type === "checkbox");
}

if ($("screen")) {
  new App().start().catch((error) => {
    $("screen").textContent = error.message;
  });
}
