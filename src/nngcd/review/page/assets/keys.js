/** The list of keys, and the switch for single letters. */
import { h } from "./dom.js";
import { closeButton, show } from "./dialogs.js";

const KEYS = [
  ["J K", "next or previous category"],
  ["A", "approve the category as it is; press again to take that back"],
  ["R", "rename"],
  ["M", "merge with…"],
  ["S", "split"],
  ["1–6", "merge with that neighbour, or move the selected images there"],
  ["arrows", "go to another image"],
  ["Space", "select the image"],
  ["Shift + arrows", "select a range"],
  ["Ctrl + A", "select all that are shown"],
  ["Escape", "clear the selection"],
  ["X", "reject the selected images (or the whole category)"],
  ["G", "move the selected images to…"],
  ["N", "new category from the selected images"],
  ["F", "find similar images"],
  ["Z", "original size"],
  ["Page ↓ ↑", "more images"],
  ["U", "undo"],
  ["Shift + U", "redo"],
  ["/", "search"],
  ["?", "show these keys"],
];
const MAP_KEYS = [
  ["arrows", "move the map"],
  ["+ −", "larger, smaller"],
  ["0", "the whole map"],
  ["Space", "select all points in the frame; with Shift, add them"],
  ["Backspace", "remove the points in the frame from the selection"],
  ["C", "colour by something else"],
  ["Enter", "go to the selected images"],
];

/** @param {string[][]} keys */
const list = (keys) =>
  h(
    "dl",
    { class: "keys" },
    ...keys.flatMap(([key, text]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text })]),
  );

/** @param {boolean} isOn whether single letters are keys @param {(isOn: boolean) => void} set */
export function showKeys(isOn, set) {
  const box = h("input", { type: "checkbox", checked: isOn, onchange: () => set(box.checked) });
  const letters = h("label", {}, box, " Use single-letter keys");
  const close = h("p", { class: "buttons" }, closeButton("Close"));
  show("Keys", letters, list(KEYS), h("h3", { text: "On the map" }), list(MAP_KEYS), close);
}
