/** Building elements. Text is always text: nothing here, or anywhere on the page, parses HTML. */

/**
 * @param {string} tag
 * @param {Object<string, any>} [props] attributes; `on…` are listeners, `text` is the text
 * @param {...(Node|string|null|undefined|false)} children
 */
export function h(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** @param {number} n @param {string} one */
export const counted = (n, one) => `${n.toLocaleString("en")} ${n === 1 ? one : one.endsWith("y") ? one.slice(0, -1) + "ies" : one + "s"}`;

/** @param {number|null} share */
export const percent = (share) => (share === null ? "–" : `${Math.round(share * 100)} %`);

/** A picture by the id of its image; a file that is gone shows a grey square with the reason in its title. */
export function picture(id, { size = 128, alt = "" } = {}) {
  const image = h("img", { src: `/img/${encodeURIComponent(id)}?s=${size}`, alt, loading: "lazy", draggable: "false" });
  image.addEventListener("error", () => image.classList.add("missing"));
  return image;
}

/** @param {string[]} ids */
export const strip = (ids, n = 9) => h("div", { class: "strip" }, ...ids.slice(0, n).map((id) => picture(id)));

export const badge = (kind) => h("span", { class: `badge ${kind}`, text: kind });
