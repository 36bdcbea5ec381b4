/** Which points are inside a line, in the frame, or under the pointer. */
/** @import {Place} from "./gestures.js" */
/** @import {Points} from "./points.js" */
/** @import {View} from "./view.js" */

/** Pixels from the pointer at which a point still counts as meant. */
const REACH = 9;

/**
 * The points inside a line: each looks up its pixel among those that the line encloses, which takes a few milliseconds
 * for a hundred thousand points, however crooked the line is.
 * @param {Points} points @param {View} view @param {Place[]} line
 * @returns {number[]} rows
 */
export function inside(points, view, line) {
  const [width, height] = [Math.ceil(view.width), Math.ceil(view.height)];
  const pixels = filled(line, width, height);
  return within(points, view, (x, y) => pixels[Math.floor(y) * width + Math.floor(x)] !== 0);
}

/**
 * Fill a closed line row by row. Not on a canvas: making one takes longer than all the rest, and browsers that guard
 * against fingerprinting return noise for its pixels.
 * @param {Place[]} line @param {number} width @param {number} height
 * @returns {Uint8Array} of each pixel, whether its centre is inside; loops of the line count wherever they cross
 */
export function filled(line, width, height) {
  /** @type {[number, number][][]} */
  const crossings = Array.from({ length: height }, () => []); // of each row: where, and whether downwards (1) or upwards
  line.forEach(([x, y], i) => {
    const [toX, toY] = line[(i + 1) % line.length];
    const first = Math.max(0, Math.ceil(Math.min(y, toY) - 0.5));
    const end = Math.min(height, Math.ceil(Math.max(y, toY) - 0.5));
    const slope = (toX - x) / (toY - y);
    for (let row = first; row < end; row += 1) crossings[row].push([x + (row + 0.5 - y) * slope, Math.sign(toY - y)]);
  });
  const pixels = new Uint8Array(width * height);
  crossings.forEach((found, row) => {
    let winding = 0;
    found.sort((a, b) => a[0] - b[0]);
    found.forEach(([x, direction], i) => {
      winding += direction;
      if (!winding) return;
      const clamp = (/** @type {number} */ at) => Math.max(0, Math.min(width, Math.ceil(at - 0.5)));
      pixels.fill(1, row * width + clamp(x), row * width + clamp(found[i + 1][0]));
    });
  });
  return pixels;
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
