/** The page: its screens, its keys, what stands at the top. */
import { h, counted } from "./dom.js";
import * as api from "./api.js";
import { help, isOpen } from "./dialogs.js";
import { Queue } from "./queue.js";
import { Same } from "./same.js";
import { Split } from "./split.js";
import { Unsure } from "./unsure.js";
import { Table } from "./table.js";
import { Log } from "./log.js";

const $ = (id) => document.getElementById(id);
const SCREENS = { queue: ["Queue", Queue], same: ["Same?", Same], split: ["Split?", Split], unsure: ["Unsure", Unsure], table: ["Table", Table], log: ["Log", Log] };
const MOST_WAITING = 20;

class App {
  constructor() {
    this.screens = {}; this.name = ""; this.nBusy = 0; this.waiting = [];
    this.hasLetters = localStorage.getItem("letters") !== "off";
    history.replaceState(null, "", location.pathname + location.hash); // the token need not stay in the address
    $("undo").addEventListener("click", () => this.undo());
    $("redo").addEventListener("click", () => this.redo());
    $("help").addEventListener("click", () => this.help());
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("hashchange", () => this.open(location.hash.slice(1)));
    api.onChange(() => { this.top(); this.say("Changed in another window. This one is now up to date."); this.again(); });
  }

  async start() {
    await api.refresh();
    this.top();
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
    $("screen").replaceChildren(this.screens[name].element);
    window.scrollTo(0, 0);
    await this.tried(() => this.screens[name].show(what));
  }

  get screen() { return this.screens[this.name]; }
  again() { return this.tried(() => this.screen.show()); }

  top() {
    const { run } = api;
    document.title = `${run.title} · nngcd review`;
    $("title").textContent = run.title;
    $("bar").style.setProperty("width", `${(100 * run.n_images_reviewed) / Math.max(1, run.n_images)}%`);
    $("progress").textContent = `${run.n_categories_reviewed} of ${counted(run.n_categories, "category")} approved · ` +
      `${run.n_images_reviewed.toLocaleString("en")} of ${counted(run.n_images, "image")} settled`;
    $("undo").disabled = !run.can_undo || !!run.why_read_only;
    $("redo").disabled = !run.can_redo || !!run.why_read_only;
    const notes = [run.why_read_only, run.why_no_pictures].filter(Boolean).join(" ");
    $("banner").hidden = !notes;
    $("banner").textContent = notes;
    $("tabs").replaceChildren(...Object.entries(SCREENS).map(([name, [title]]) => h("a", { href: `#${name}`, "aria-current": name === this.name ? "page" : null },
      title, name === "unsure" && run.n_unsure ? h("span", { class: "count", text: ` ${run.n_unsure.toLocaleString("en")}` }) : null)));
  }

  say(text) { $("said").textContent = text; }

  /** Do something that takes a moment. Keys pressed meanwhile wait, so that they act on what is shown then. */
  async tried(work) {
    this.nBusy += 1;
    try { return await work(); } catch (error) { this.say(error.message); return undefined; } finally {
      this.nBusy -= 1;
      if (!this.nBusy && this.waiting.length) this.key(this.waiting.shift());
    }
  }

  /** Do an edit, say what was done, show what comes next. */
  act(work, next = () => this.again()) {
    return this.tried(async () => {
      const done = await work();
      this.top();
      if (done?.words) this.say(`${done.words}.`);
      await next();
    });
  }

  undo(n = 1) { return this.act(async () => { await api.undo(n); this.say(n === 1 ? "Undone." : `${n} edits undone.`); }); }
  redo() { return this.act(async () => { await api.redo(); this.say("Redone."); }); }
  help() { help(this.hasLetters, (isOn) => { this.hasLetters = isOn; localStorage.setItem("letters", isOn ? "on" : "off"); }); }

  wait(event) {
    if (this.waiting.length < MOST_WAITING && !event.repeat) {
      const { key, shiftKey, ctrlKey, metaKey } = event;
      this.waiting.push({ key, shiftKey, ctrlKey, metaKey, target: document.body, preventDefault() {} });
    }
    if (!event.ctrlKey && !event.metaKey && event.key !== "Tab") event.preventDefault();
  }

  key(event) {
    const isTyping = event.target.closest?.("input, select, textarea");
    if (isOpen() || isTyping || event.altKey || event.defaultPrevented) return;
    if (this.nBusy) { this.wait(event); return; }
    const letter = event.key.toLowerCase();
    const isCommand = event.ctrlKey || event.metaKey;
    if (isCommand && letter === "z") { event.shiftKey ? this.redo() : this.undo(); event.preventDefault(); return; }
    if (isCommand && letter !== "a") return;
    if (!this.hasLetters && /^[a-z0-9/]$/i.test(event.key) && !isCommand) return;
    if ((event.key === " " || event.key === "Enter") && event.target.closest?.("button, a")) return;
    if (letter === "u" && !isCommand) { event.shiftKey ? this.redo() : this.undo(); } else if (event.key === "?") this.help();
    else if (!this.screen?.key(event)) { if (event.key === "/") this.open("table", ""); else return; }
    event.preventDefault();
  }
}

new App().start().catch((error) => { $("screen").textContent = error.message; });
