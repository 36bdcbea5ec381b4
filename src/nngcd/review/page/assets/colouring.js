/** The colours of the points, by one of their properties, and the legend. */
import { percent } from "./dom.js";
/** @import {Points} from "./points.js" */

/** @typedef {[number, number, number]} Colour red, green and blue, each from 0 to 255 */
/** @typedef {{name: string, colour: Colour}} Key an entry of the legend */
/** @typedef {{keys: Key[], keyOf: (row: number) => number, isOrdered: boolean}} Colouring */

/** @type {Colour} */
const GREY = [140, 146, 154];
/** @type {Object<string, Colour>} */
const OF_STATUS = { known: [47, 120, 190], new: [214, 106, 35], unsure: [190, 60, 160], none: GREY };
/** From doubtful to sure; readable on light and dark paper, and by people who cannot tell red from green. */
const RAMP = /** @type {Colour[]} */ ([
  [178, 47, 90],
  [214, 91, 66],
  [224, 145, 48],
  [150, 168, 70],
  [52, 152, 140],
]);

/** @type {Object<string, (points: Points) => Colouring>} */
export const COLOURINGS = {
  category: (points) => ({
    keys: [...points.categories.map((id, i) => ({ name: points.names.get(id) ?? id, colour: wheel(i) })), none()],
    keyOf: (row) => (points.category[row] < 0 ? points.categories.length : points.category[row]),
    isOrdered: false,
  }),
  status: (points) => ({
    keys: points.statuses.map((status) => ({
      name: status === "none" ? "in no category" : status,
      colour: OF_STATUS[status] ?? GREY,
    })),
    keyOf: (row) => points.status[row],
    isOrdered: true,
  }),
  confidence: (points) => ({
    keys: [
      ...RAMP.map((colour, i) => ({ name: `${percent(i / 5)} to ${percent((i + 1) / 5)} sure`, colour })),
      none("unknown"),
    ],
    keyOf: (row) => (points.confidence[row] >= 0 ? Math.min(4, Math.floor(points.confidence[row] * 5)) : 5),
    isOrdered: true,
  }),
  reviewed: (points) => ({
    keys: [
      { name: "not yet reviewed", colour: GREY },
      { name: "reviewed", colour: [30, 150, 100] },
    ],
    keyOf: (row) => points.reviewed[row],
    isOrdered: true,
  }),
};

/** @returns {Key} */
const none = (name = "in no category") => ({ name, colour: GREY });

/** Colours that differ between neighbouring numbers: turns of the golden angle, in three tones. @param {number} i */
function wheel(i) {
  const hue = (i * 137.508) % 360;
  return rgb(hue, 0.62, [0.48, 0.62, 0.36][i % 3]);
}

/** @param {number} hue @param {number} saturation @param {number} lightness @returns {Colour} */
function rgb(hue, saturation, lightness) {
  const reach = saturation * Math.min(lightness, 1 - lightness);
  const part = (/** @type {number} */ n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (lightness - reach * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4)];
}

/**
 * How many points each key has.
 * @param {Colouring} colouring @param {number} n points
 */
export function countKeys({ keys, keyOf }, n) {
  const counts = new Uint32Array(keys.length);
  for (let row = 0; row < n; row += 1) counts[keyOf(row)] += 1;
  return counts;
}
