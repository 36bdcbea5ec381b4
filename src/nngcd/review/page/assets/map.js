/** All images as points, similar ones close; a line around some of them selects them. */
import { counted, h, keyButton } from "./dom.js";
import { get, run } from "./api.js";
import { Chart } from "./chart.js";
import { COLOURINGS, countKeys } from "./colouring.js";
import { legend } from "./legend.js";
import { inFrame, inside } from "./picking.js";
import { Points } from "./points.js";
import { Sheet } from "./sheet.js";
/** @import {App} from "./main.js" */
/** @import {Colouring} from "./colouring.js" */
/** @import {Place, Way} from "./gestures.js" */

const STEP = 60; // pixels that an arrow key moves the map
const ZOOM = 1.4;
const FAINT = 60; // of 255: points that are not selected, while others are

export class MapScreen {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {Points|null} */
    this.points = null;
    /** @type {Colouring|null} */
    this.colouring = null;
    this.isSelected = new Uint8Array(0); // of each point: a set of a hundred thousand rows is slow
    this.selected = new Int32Array(0); // rows, the least sure first
    /** @type {Set<number>} */
    this.hidden = new Set(); // keys of the legend
    this.isMoving = false;
    const drawn = (/** @type {Place[]} */ line, /** @type {Way} */ way) => this.lasso(line, way);
    const clicked = (/** @type {Place} */ at, /** @type {Way} */ way) => this.click(at, way);
    this.chart = new Chart({ isMoving: () => this.isMoving, drawn, clicked });
    this.chart.element.addEventListener("keydown", (event) => event.altKey && event.preventDefault());
    const options = Object.keys(COLOURINGS).map((name) => h("option", { value: name, text: name }));
    this.by = h("select", { onchange: () => this.recolour() }, ...options);
    this.tools = h("div", { class: "actions" });
    this.legend = h("div", { class: "legend", role: "group", "aria-label": "Legend" });
    this.bar = h("div", { class: "actions bar-of-actions" });
    this.sheet = new Sheet(app, () => this.drawBar());
    this.picked = h("section", { class: "picked", hidden: true }, this.bar, this.sheet.element);
    this.facts = h("p", { class: "quiet" });
    this.element = h(
      "div",
      { class: "map" },
      h("h2", { text: "Map" }),
      this.facts,
      this.tools,
      h("div", { class: "plot" }, this.chart.element, this.legend),
      this.picked,
    );
  }

  async show() {
    this.drawTools();
    if (this.points) {
      await this.follow(this.points);
    } else {
      this.facts.textContent = "Making the map. The first time, this takes a few seconds.";
      this.points = await Points.load();
      this.isSelected = new Uint8Array(this.points.n);
      this.facts.textContent = `${counted(this.points.n, "image")}. Images that look alike are close together; long distances mean little.`;
      this.chart.show(this.points);
      this.recolour();
    }
    this.chart.element.focus({ preventScroll: true });
  }

  /** @param {Points} points */
  async follow(points) {
    if (await points.follow()) this.recolour(false);
    await this.sheet.again();
  }

  drawTools() {
    const tool = (/** @type {string} */ text, /** @type {boolean} */ isMoving) =>
      h("button", {
        type: "button",
        "aria-pressed": String(this.isMoving === isMoving),
        onclick: () => this.use(isMoving),
        text,
      });
    this.tools.replaceChildren(
      h("label", {}, "Colour ", this.by),
      h(
        "span",
        { class: "pair", role: "group", "aria-label": "Dragging" },
        tool("Draw around points", false),
        tool("Move the map", true),
      ),
      keyButton("+", "Larger", () => this.zoom(ZOOM)),
      keyButton("−", "Smaller", () => this.zoom(1 / ZOOM)),
      keyButton("0", "Whole map", () => this.whole()),
      keyButton("Space", "Select the frame", () => this.frame("replace")),
    );
  }

  /** @param {boolean} isMoving */
  use(isMoving) {
    this.isMoving = isMoving;
    this.chart.element.classList.toggle("moving", isMoving);
    this.drawTools();
  }

  recolour(isFresh = true) {
    if (!this.points) return;
    if (isFresh) this.hidden.clear();
    this.colouring = COLOURINGS[this.by.value](this.points);
    this.counts = countKeys(this.colouring, this.points.n);
    this.drawLegend();
    this.paint();
  }

  drawLegend() {
    if (this.colouring && this.counts) {
      this.legend.replaceChildren(...legend(this.colouring, this.counts, this.hidden, (key) => this.hide(key)));
    }
  }

  /** @param {number} key of the legend */
  hide(key) {
    if (!this.hidden.delete(key)) this.hidden.add(key);
    this.drawLegend();
    this.paint();
    const buttons = [...this.legend.querySelectorAll("button")];
    buttons.find((one) => one === document.activeElement)?.focus();
  }

  paint() {
    const { points, colouring, hidden, isSelected } = this;
    if (!points || !colouring) return;
    const tint = (/** @type {number} */ alpha) =>
      colouring.keys.map(({ colour: [r, g, b] }, key) => (hidden.has(key) ? 0 : r | (g << 8) | (b << 16) | (alpha << 24)));
    const full = tint(255);
    const rest = this.selected.length ? tint(FAINT) : full;
    const tints = new Uint32Array(points.n);
    for (let row = 0; row < points.n; row += 1) {
      tints[row] = (isSelected[row] ? full : rest)[colouring.keyOf(row)];
    }
    this.chart.colour(new Uint8Array(tints.buffer));
  }

  /** @param {Place[]} line @param {Way} way */
  lasso(line, way) {
    if (this.points) this.select(inside(this.points, this.chart.view, line), way);
  }

  /** @param {Way} way */
  frame(way) {
    if (this.points) this.select(inFrame(this.points, this.chart.view), way);
  }

  /** @param {Place} at @param {Way} way */
  click(at, way) {
    const row = this.chart.rowAt(at);
    this.select(row < 0 ? [] : [row], way);
  }

  /** @param {number[]} rows @param {Way} way */
  select(rows, way) {
    const { points, colouring, hidden, isSelected } = this;
    if (!points || !colouring) return;
    const shown = hidden.size ? rows.filter((row) => !hidden.has(colouring.keyOf(row))) : rows;
    if (way === "replace") isSelected.fill(0);
    for (const row of shown) isSelected[row] = Number(way !== "remove");
    this.selected = points.leastSure.filter((row) => isSelected[row]);
    this.paint();
    this.open(points);
  }

  /** Open what is selected as a grid. @param {Points} points */
  open(points) {
    const rows = this.selected;
    this.picked.hidden = !rows.length;
    this.app.say(rows.length ? `${counted(rows.length, "image")} selected.` : "");
    if (!rows.length) return this.sheet.clear();
    const idsOf = (/** @type {Int32Array} */ some) => Array.from(some, (row) => points.id(row));
    const source = async (/** @type {number} */ offset, /** @type {number} */ n) => {
      const asked = new URLSearchParams(idsOf(rows.subarray(offset, offset + n)).map((id) => ["id", id]));
      return { ...(await get(`/api/images?${asked}`)), total: rows.length };
    };
    const words = "Selected on the map, least sure first.";
    const all = {
      n: rows.length,
      // Tens of thousands of ids are made only for an action.
      get named() {
        return { images: idsOf(rows) };
      },
    };
    return this.app.tried(() => this.sheet.open({ source, words, withNames: true, all }));
  }

  drawBar() {
    const isOff = !!run.why_read_only;
    this.bar.replaceChildren(
      ...this.sheet.buttons(),
      keyButton("X", "Reject", () => this.sheet.reject(), { isOff }),
      keyButton("F", "Find similar", () => this.sheet.find(), { isOff: !this.sheet.grid.image }),
      keyButton("Escape", "Clear", () => this.clear()),
      h("span", { class: "chosen", text: this.sheet.chosenWords() }),
    );
  }

  clear() {
    if (this.sheet.grid.selected.size || this.sheet.grid.image) this.sheet.grid.clear();
    else if (this.sheet.before) this.sheet.back();
    else this.select([], "replace");
    this.chart.element.focus({ preventScroll: true });
  }

  /** @param {number} factor */
  zoom(factor) {
    this.chart.changed(() => this.chart.view.zoomAt(factor));
  }

  whole() {
    this.chart.changed(() => this.chart.view.whole());
  }

  /** @param {number} dx @param {number} dy */
  move(dx, dy) {
    this.chart.changed(() => this.chart.view.move(dx, dy));
  }

  nextColours() {
    this.by.selectedIndex = (this.by.selectedIndex + 1) % this.by.options.length;
    this.recolour();
    this.app.say(`Coloured by ${this.by.value}.`);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.points) return false;
    if (event.key === "Escape") return this.clear();
    if (this.sheet.element.contains(document.activeElement) && this.sheet.key(event)) return true;
    const act = {
      arrowleft: () => this.move(STEP, 0),
      arrowright: () => this.move(-STEP, 0),
      arrowup: () => this.move(0, STEP),
      arrowdown: () => this.move(0, -STEP),
      "+": () => this.zoom(ZOOM),
      "=": () => this.zoom(ZOOM),
      "-": () => this.zoom(1 / ZOOM),
      0: () => this.whole(),
      c: () => this.nextColours(),
      " ": () => this.frame(event.shiftKey ? "add" : "replace"),
      backspace: () => this.frame("remove"),
      enter: () => this.selected.length && this.sheet.grid.go(0),
    }[event.key.toLowerCase()];
    if (act) return act();
    const isMeant = this.selected.length && !/^(arrow|page| )/i.test(event.key);
    return isMeant ? this.sheet.key(event) : false;
  }
}
