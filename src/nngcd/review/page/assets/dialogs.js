/** Questions above the page: a category, a yes or no, the keys, an image in full size. Escape closes each. */
import { h, badge, counted, picture } from "./dom.js";
import { get } from "./api.js";

const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("dialog"));
export const isOpen = () => dialog.open;

function show(title, ...content) {
  dialog.className = "";
  dialog.replaceChildren(h("h2", { id: "dialog-title", text: title }), ...content);
  dialog.showModal();
  return new Promise((resolve) => {
    const closed = () => {
      if (dialog.open) return; // the last dialog's event, which comes late
      dialog.removeEventListener("close", closed);
      resolve(null);
    };
    dialog.addEventListener("close", closed);
  });
}

const buttons = (yes, act) => h("p", { class: "buttons" }, h("button", { type: "button", class: "main", onclick: act, text: yes }),
  h("button", { type: "button", onclick: () => dialog.close(), text: "Cancel" }));

/** @returns {Promise<boolean>} */
export function confirm(title, text, yes) {
  return new Promise((resolve) => {
    const act = () => { resolve(true); dialog.close(); };
    show(title, h("p", { text }), buttons(yes, act)).then(() => resolve(false));
    dialog.querySelector("button").focus();
  });
}

/**
 * Ask for a name, completing those that exist.
 * @returns {Promise<{name: string, category: Object|null}|null>} the category, where the name is one that exists
 */
export function askName(title, { value = "", hint = "", without = "" } = {}) {
  return new Promise((resolve) => {
    let found = [], at = -1, asked = 0;
    const input = h("input", { type: "text", value, maxlength: 200, autocomplete: "off", role: "combobox", "aria-expanded": "false", "aria-controls": "names", "aria-label": title });
    const list = h("ul", { id: "names", class: "names", role: "listbox" });
    const take = (category) => { resolve({ name: category ? category.name : input.value.trim(), category }); dialog.close(); };
    const exact = () => found.find((one) => one.name.toLowerCase() === input.value.trim().toLowerCase()) || null;
    const draw = () => {
      list.replaceChildren(...found.map((one, i) => h("li", { role: "option", "aria-selected": String(i === at), onclick: () => take(one) },
        one.typical[0] ? picture(one.typical[0]) : null, h("span", { text: one.name }), badge(one.kind), h("small", { text: counted(one.size, "image") }))));
      input.setAttribute("aria-expanded", String(found.length > 0));
    };
    const search = async () => {
      const number = ++asked;
      const { items } = await get(`/api/categories?sort=name&n=8&typical=1&q=${encodeURIComponent(input.value.trim())}`);
      if (number !== asked) return;
      found = items.filter((one) => one.id !== without); at = -1; draw();
    };
    input.addEventListener("input", search);
    input.addEventListener("keydown", async (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        at = Math.max(-1, Math.min(found.length - 1, at + (event.key === "ArrowDown" ? 1 : -1))); draw(); event.preventDefault();
      } else if (event.key === "Enter") {
        event.preventDefault();
        if (at < 0 && input.value.trim()) await search();
        if (at >= 0) take(found[at]); else if (input.value.trim()) take(exact());
      }
    });
    show(title, input, hint ? h("p", { class: "quiet", text: hint }) : null, list).then(() => resolve(null));
    input.focus(); input.select(); search();
  });
}

const KEYS = [["J K", "next or previous category"], ["A", "approve the category as it is"], ["R", "rename"], ["M", "merge with…"], ["S", "split"],
  ["X", "reject the selected images (or the whole category)"], ["G", "move the selected images to…"], ["N", "new category from the selected images"],
  ["1–6", "merge with that neighbour, or move the selected images there"], ["Space", "select the image"], ["arrows", "go to another image"],
  ["Shift + arrows", "select a range"], ["Ctrl + A", "select all shown"], ["F", "find similar images"], ["Z", "original size"], ["Page ↓ ↑", "more images"],
  ["U", "undo"], ["Shift + U", "redo"], ["/", "search"], ["Escape", "clear the selection"], ["?", "show these keys"]];

/** @param {boolean} isOn @param {(isOn: boolean) => void} set */
export function help(isOn, set) {
  const box = h("input", { type: "checkbox", checked: isOn, onchange: () => set(box.checked) });
  show("Keys", h("dl", { class: "keys" }, ...KEYS.flatMap(([key, text]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text })])),
    h("label", {}, box, " Use single-letter keys"), h("p", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close(), text: "Close" })));
}

/** @param {Object} image */
export function zoom(image) {
  show(image.file_name, picture(image.id, { size: "full", alt: image.file_name }), h("p", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close(), text: "Close" })));
  dialog.className = "zoom";
}
