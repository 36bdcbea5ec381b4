/** What part of the map is seen: where a place, each axis from 0 to 1, is on the screen. */

const MARGIN = 0.04;
const MOST_ZOOM = 200;

export class View {
  constructor() {
    this.width = this.height = 1;
    this.zoom = 1;
    this.x = this.y = 0.5; // the place in the middle
  }

  /** Pixels of the whole map. */
  get side() {
    return this.zoom * (1 - 2 * MARGIN) * Math.min(this.width, this.height);
  }
  get left() {
    return this.width / 2 - this.x * this.side;
  }
  get top() {
    return this.height / 2 - this.y * this.side;
  }
  get isWhole() {
    return this.zoom === 1 && this.x === 0.5 && this.y === 0.5;
  }

  whole() {
    this.zoom = 1;
    this.x = this.y = 0.5;
  }

  /** @param {number} dx pixels @param {number} dy */
  move(dx, dy) {
    this.x = clamp(this.x - dx / this.side, 0, 1);
    this.y = clamp(this.y - dy / this.side, 0, 1);
  }

  /** Zoom so that what is at a pixel stays there. @param {number} factor */
  zoomAt(factor, px = this.width / 2, py = this.height / 2) {
    const [x, y] = [(px - this.left) / this.side, (py - this.top) / this.side];
    this.zoom = clamp(this.zoom * factor, 1, MOST_ZOOM);
    this.x = clamp(x - (px - this.width / 2) / this.side, 0, 1);
    this.y = clamp(y - (py - this.height / 2) / this.side, 0, 1);
  }
}

/** @param {number} value @param {number} low @param {number} high */
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
