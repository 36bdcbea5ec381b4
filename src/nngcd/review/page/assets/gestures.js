/** What a pointer does on the map: draws a line around points, moves the map, zooms, or points at something. */

/** @typedef {[number, number]} Place in pixels from the upper left corner */
/** @typedef {"replace"|"add"|"remove"} Way how points join a selection */
/**
 * @typedef {Object} Handlers
 * @property {() => boolean} isMoving whether dragging moves the map
 * @property {(line: Place[]) => void} drawing
 * @property {(line: Place[], way: Way) => void} drawn
 * @property {(at: Place, way: Way) => void} clicked
 * @property {(dx: number, dy: number) => void} moved
 * @property {(factor: number, at: Place) => void} zoomed
 * @property {(at: Place|null) => void} hovered
 */

/** Pixels that a hand trembles in a click. */
const STILL = 4;

/** @param {{shiftKey: boolean, altKey: boolean}} event @returns {Way} */
export const wayOf = (event) => (event.altKey ? "remove" : event.shiftKey ? "add" : "replace");

export class Gestures {
  /** @param {HTMLElement} element @param {Handlers} on */
  constructor(element, on) {
    this.element = element;
    this.on = on;
    /** @type {Map<number, Place>} */
    this.held = new Map();
    /** @type {Place[]} */
    this.line = [];
    this.isMove = false;
    element.addEventListener("pointerdown", (event) => this.down(event));
    element.addEventListener("pointermove", (event) => this.move(event));
    element.addEventListener("pointerup", (event) => this.up(event));
    element.addEventListener("pointercancel", (event) => this.end(event));
    element.addEventListener("pointerleave", () => on.hovered(null));
    element.addEventListener("contextmenu", (event) => event.preventDefault());
    element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** @param {MouseEvent} event @returns {Place} */
  at(event) {
    const box = this.element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.isTrusted) this.element.setPointerCapture(event.pointerId);
    this.held.set(event.pointerId, this.at(event));
    this.isMove = this.on.isMoving() || event.button !== 0 || this.held.size > 1;
    this.line = this.isMove ? [] : [this.at(event)];
    this.on.drawing([]);
    this.on.hovered(null);
  }

  /** @param {PointerEvent} event */
  move(event) {
    const at = this.at(event);
    const before = this.held.get(event.pointerId);
    if (!before) return this.on.hovered(at);
    if (this.held.size > 1) this.pinch(event.pointerId, at);
    else if (this.isMove) this.on.moved(at[0] - before[0], at[1] - before[1]);
    else this.on.drawing((this.line = [...this.line, at]));
    return this.held.set(event.pointerId, at);
  }

  /** Two fingers: their distance zooms, their middle moves. @param {number} id @param {Place} at */
  pinch(id, at) {
    const before = /** @type {Place} */ (this.held.get(id));
    const other = [...this.held].find(([one]) => one !== id)?.[1] ?? at;
    const apart = (/** @type {Place} */ [x, y]) => Math.max(1, Math.hypot(x - other[0], y - other[1]));
    this.on.zoomed(apart(at) / apart(before), [(at[0] + other[0]) / 2, (at[1] + other[1]) / 2]);
    this.on.moved((at[0] - before[0]) / 2, (at[1] - before[1]) / 2);
  }

  /** @param {PointerEvent} event */
  up(event) {
    const line = this.line;
    const isDrawn = this.held.has(event.pointerId) && !this.isMove;
    this.end(event);
    if (!isDrawn) return;
    const isStill = line.every(([x, y]) => Math.hypot(x - line[0][0], y - line[0][1]) <= STILL);
    if (isStill) this.on.clicked(line[0], wayOf(event));
    else this.on.drawn(line, wayOf(event));
  }

  /** @param {PointerEvent} event */
  end(event) {
    this.held.delete(event.pointerId);
    this.line = [];
    this.on.drawing([]);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    this.on.zoomed(Math.exp(-Math.max(-100, Math.min(100, event.deltaY)) / 300), this.at(event));
  }
}
