/** Building elements. Text is always text: nothing on the page parses HTML. */
import { loadLater } from "./loading.js";

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Object<string, any>} [props] attributes; `on…` are listeners, `text` is the text
 * @param {...(Node|string|null|undefined|false)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) made.append(child);
  return made;
}

/** @param {number} n */
export const number = (n) => n.toLocaleString("en");

/** @param {number} n @param {string} one */
export const counted = (n, one) =>
  `${number(n)} ${n === 1 ? one : one.endsWith("y") ? one.slice(0, -1) + "ies" : one + "s"}`;

/** @param {number|null} share */
export const percent = (share) => (share === null ? "–" : `${Math.round(share * 100)} %`);

/**
 * A picture by the id of its image; a file that is gone shows a grey square.
 * @param {string} id
 * @param {{size?: 128|512|"full", alt?: string}} [how]
 */
export function picture(id, { size = 128, alt = "" } = {}) {
  const src = `/img/${encodeURIComponent(id)}?s=${size}`;
  const image = h("img", { alt, decoding: "async", draggable: "false" });
  image.addEventListener("error", () => image.classList.add("missing"));
  loadLater(image, src);
  return image;
}

/** @param {string[]} ids */
export const strip = (ids, n = 9) => h("div", { class: "strip" }, ...ids.slice(0, n).map((id) => picture(id)));

/** @param {string} kind */
export const badge = (kind) => h("span", { class: `badge ${kind}`, text: kind });

/**
 * A button that names its key.
 * @param {string|number} key
 * @param {string} text
 * @param {() => any} act
 * @param {{isMain?: boolean, isOff?: boolean}} [how]
 */
export const keyButton = (key, text, act, { isMain = false, isOff = false } = {}) =>
  h(
    "button",
    { type: "button", class: isMain ? "main" : null, disabled: isOff, onclick: act },
    `${text} `,
    h("kbd", { text: key }),
  );
