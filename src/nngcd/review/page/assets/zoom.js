/** An image in its original size; the arrows walk through its neighbours in the grid. */
import { h, percent, picture } from "./dom.js";
import { close, closeButton, show } from "./dialogs.js";
/** @import {ImageFacts} from "./types.js" */

/** Scanned digits have a few pixels; below this many, a pixel is shown as a square. */
const SMALL = 200;

/**
 * @param {ImageFacts[]} items
 * @param {number} at which one
 * @param {(at: number) => void} [onGo] told where the arrows led
 */
export function zoom(items, at, onGo = () => {}) {
  const dialog = /** @type {HTMLElement} */ (document.getElementById("dialog"));
  const large = h("div", { class: "original" });
  const facts = h("p", { class: "quiet" });
  const draw = () => {
    const one = items[at];
    const image = picture(one.id, { size: "full", alt: one.file_name });
    image.addEventListener("load", () => enlarge(image));
    large.replaceChildren(image);
    /** @type {HTMLElement} */ (document.getElementById("dialog-title")).textContent = one.file_name;
    facts.textContent = `${one.name ?? "in no category"} · ${percent(one.confidence)} sure · ${at + 1} of ${items.length}`;
  };
  const walk = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key.toLowerCase() === "z") close();
    else if (step && items[at + step]) onGo((at += step));
    else return;
    event.preventDefault();
    if (step) draw();
  };
  show(" ", large, facts, h("p", { class: "buttons" }, closeButton("Close"))).then(() =>
    dialog.removeEventListener("keydown", walk),
  );
  dialog.className = "zoom";
  dialog.addEventListener("keydown", walk);
  draw();
}

/** @param {HTMLImageElement} image */
function enlarge(image) {
  const longest = Math.max(image.naturalWidth, image.naturalHeight);
  if (!longest || longest >= SMALL) return;
  image.classList.add("pixels");
  image.style.setProperty("width", `${image.naturalWidth * Math.ceil(SMALL / longest)}px`);
}
