/** Which points are inside a line, in the frame, or under the pointer. */
import { h } from "./dom.js";
/** @import {Place} from "./gestures.js" */
/** @import {Points} from "./points.js" */
/** @import {View} from "./view.js" */

/** Pixels from the pointer at which a point still counts as meant. */
const REACH = 9;

/**
 * The points inside a line. The line is filled on a canvas that is never shown, and each point looks up its pixel: that
 * takes a few milliseconds for a hundred thousand points, however crooked the line is.
 * @param {Points} points @param {View} view @param {Place[]} line
 * @returns {number[]} rows
 */
export function inside(points, view, line) {
  const [width, height] = [Math.ceil(view.width), Math.ceil(view.height)];
  const context = h("canvas", { width, height }).getContext("2d", { willReadFrequently: true });
  if (!context) return [];
  context.beginPath();
  line.forEach(([x, y]) => context.lineTo(x, y));
  context.fill();
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  return within(points, view, (x, y) => pixels[Math.floor(y) * width + Math.floor(x)] !== 0);
}

/**
 * @param {Points} points @param {View} view
 * @returns {number[]} rows of the points in the frame
 */
export const inFrame = (points, view) => within(points, view, () => true);

/** @param {Points} points @param {View} view @param {(x: number, y: number) => boolean} isMeant */
function within({ x, y, n }, view, isMeant) {
  const { left, top, side, width, height } = view;
  const rows = [];
  for (let row = 0; row < n; row += 1) {
    const [px, py] = [left + side * x[row], top + side * y[row]];
    if (px >= 0 && py >= 0 && px < width && py < height && isMeant(px, py)) rows.push(row);
  }
  return rows;
}

/**
 * @param {Points} points @param {View} view @param {Place} at @param {(row: number) => boolean} isShown
 * @returns {number} the row of the nearest point under the pointer, -1 for none
 */
export function nearest({ x, y, n }, view, [px, py], isShown) {
  const { left, top, side } = view;
  let [best, found] = [REACH * REACH, -1];
  for (let row = 0; row < n; row += 1) {
    const [dx, dy] = [left + side * x[row] - px, top + side * y[row] - py];
    const distance = dx * dx + dy * dy;
    if (distance < best && isShown(row)) [best, found] = [distance, row];
  }
  return found;
}
