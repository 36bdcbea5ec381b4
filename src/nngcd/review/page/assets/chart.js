/** The surface of the map: the points, the line that is drawn around some of them, the picture under the pointer. */
import { h, picture } from "./dom.js";
import { Gestures } from "./gestures.js";
import { nearest } from "./picking.js";
import { CanvasPlot, makePlot } from "./plots.js";
import { View } from "./view.js";
/** @import {Handlers, Place} from "./gestures.js" */
/** @import {Plot} from "./plots.js" */
/** @import {Points} from "./points.js" */

const SVG = "http://www.w3.org/2000/svg";

export class Chart {
  /** @param {Pick<Handlers, "isMoving"|"drawn"|"clicked">} on */
  constructor(on) {
    this.view = new View();
    /** @type {Plot|null} */
    this.plot = null;
    /** @type {Points|null} */
    this.points = null;
    /** @type {Uint8Array} */
    this.rgba = new Uint8Array(0);
    this.isAsked = false; // for a redraw
    const label = "The map. Arrows move it, plus and minus zoom, Space selects the points in the frame.";
    this.line = document.createElementNS(SVG, "polygon");
    const lines = document.createElementNS(SVG, "svg");
    lines.setAttribute("aria-hidden", "true");
    lines.append(this.line);
    this.tip = h("div", { class: "tip", hidden: true });
    this.place = h("div", { class: "place" });
    this.element = h(
      "div",
      { class: "chart", tabindex: "0", role: "application", "aria-label": label },
      this.place,
      lines,
      this.tip,
    );
    const { isMoving, drawn, clicked } = on;
    const hovered = (/** @type {Place|null} */ at) => this.hover(at);
    const drawing = (/** @type {Place[]} */ line) =>
      this.line.setAttribute("points", line.map((at) => at.join(",")).join(" "));
    const moved = (/** @type {number} */ dx, /** @type {number} */ dy) => this.changed(() => this.view.move(dx, dy));
    const zoomed = (/** @type {number} */ factor, /** @type {Place} */ at) =>
      this.changed(() => this.view.zoomAt(factor, ...at));
    new Gestures(this.element, { isMoving, drawn, clicked, hovered, drawing, moved, zoomed });
    new ResizeObserver(() => this.changed(() => this.measure())).observe(this.element);
  }

  measure() {
    this.view.width = Math.max(1, this.element.clientWidth);
    this.view.height = Math.max(1, this.element.clientHeight);
  }

  /** @param {Points} points */
  show(points) {
    this.points = points;
    this.use(makePlot(points, () => this.use(new CanvasPlot(points))));
  }

  /** @param {Plot} plot */
  use(plot) {
    this.plot = plot;
    this.place.replaceChildren(plot.canvas);
    this.element.dataset.drawnBy = plot.kind;
    this.measure();
    if (this.rgba.length) this.colour(this.rgba);
  }

  /** @param {Uint8Array} rgba four numbers for each point */
  colour(rgba) {
    this.rgba = rgba;
    this.plot?.colour(rgba);
    this.redraw();
  }

  /** Change what part is seen. @param {() => void} change */
  changed(change) {
    change();
    this.redraw();
  }

  redraw() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.plot?.draw(this.view);
    });
  }

  /** @param {Place} at @returns {number} the row of the point there, -1 for none */
  rowAt(at) {
    return this.points ? nearest(this.points, this.view, at, (row) => this.rgba[4 * row + 3] > 0) : -1;
  }

  /** @param {Place|null} at */
  hover(at) {
    const row = at ? this.rowAt(at) : -1;
    this.tip.hidden = row < 0;
    if (!at || !this.points || row < 0) {
      this.tip.dataset.row = "";
      return;
    }
    if (this.tip.dataset.row !== String(row)) {
      const { points } = this;
      this.tip.replaceChildren(picture(points.id(row)), h("span", { text: points.categoryName(row) }));
      this.tip.dataset.row = String(row);
    }
    const isRight = at[0] > this.view.width / 2;
    this.tip.style.setProperty("left", `${at[0] + (isRight ? -120 : 14)}px`);
    this.tip.style.setProperty("top", `${Math.min(at[1] + 14, this.view.height - 150)}px`);
  }
}
