/** The legend of the map: what the colours mean, and a click hides the points of one. */
import { h, number } from "./dom.js";
/** @import {Colouring} from "./colouring.js" */

/** Entries shown; of more categories, the largest. */
const MOST = 14;

/**
 * @param {Colouring} colouring
 * @param {Uint32Array} counts points of each key
 * @param {Set<number>} hidden keys
 * @param {(key: number) => void} toggle
 */
export function legend({ keys, isOrdered }, counts, hidden, toggle) {
  let shown = keys.map((_, i) => i).filter((i) => counts[i] > 0);
  if (!isOrdered) shown.sort((a, b) => counts[b] - counts[a]);
  const nMore = Math.max(0, shown.length - MOST);
  shown = shown.slice(0, MOST);
  const entry = (/** @type {number} */ i) => {
    const dot = h("span", { class: "dot" });
    dot.style.setProperty("background", `rgb(${keys[i].colour.join(" ")})`);
    const props = {
      type: "button",
      "aria-pressed": String(!hidden.has(i)),
      title: "Hide or show these",
      onclick: () => toggle(i),
    };
    return h(
      "button",
      props,
      dot,
      h("span", { class: "label", text: keys[i].name }),
      h("small", { text: number(counts[i]) }),
    );
  };
  const more = nMore ? h("p", { class: "quiet", text: `and ${number(nMore)} smaller ones` }) : null;
  return [...shown.map(entry), more].filter((one) => one !== null);
}
