/** Talking to the server. Every edit names the version it was made on; the server refuses one made on an older one. */
/** @import {Run} from "./types.js" */

export const run = /** @type {Run} */ (/** @type {unknown} */ ({ version: 0 }));
/** @type {(() => void)[]} */
const listeners = [];
/** @type {Promise<any>} */
let posting = Promise.resolve(); // the last edit of this window

/** @param {() => void} listener called whenever somebody else changed the review */
export const onChange = (listener) => listeners.push(listener);
const tell = () => listeners.forEach((listener) => listener());

/** @param {string} text @param {number} status */
const failure = (text, status) => Object.assign(new Error(text), { status });
const lost = () => failure("The server does not answer. Is `nngcd review` still running?", 0);

/** @param {Response} response */
async function checked(response) {
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({ error: "The server's answer could not be read." }));
  throw failure(error, response.status);
}

/** @param {string} path @param {RequestInit} [how] */
const ask = async (path, how) =>
  checked(
    await fetch(path, how).catch(() => {
      throw lost();
    }),
  );

/** @param {string} path @returns {Promise<any>} */
export const get = async (path) => (await ask(path)).json();

/** @param {string} path */
export const getBinary = async (path) => (await ask(path)).arrayBuffer();

/** @param {string} method @param {string} path @param {Object} [body] @returns {Promise<any>} */
export const send = async (method, path, body = {}) =>
  (await ask(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

/** @param {string} path @param {Object} body @returns {Promise<Run>} */
function post(path, body) {
  const done = change(path, { version: run.version, ...body });
  posting = done.catch(() => {});
  return done;
}

/** @param {string} path @param {Object} body @returns {Promise<Run>} */
async function change(path, body) {
  try {
    return Object.assign(run, await send("POST", path, body));
  } catch (error) {
    if (/** @type {any} */ (error).status === 409) await refresh().then(tell);
    throw error;
  }
}

/** Several changes are one edit, undone together. @param {...Object} changes */
export const edit = (...changes) => post("/api/edits", { changes });
export const undo = (n = 1) => post("/api/undo", { n });
export const redo = (n = 1) => post("/api/redo", { n });

/** @returns {Promise<Run>} */
export const refresh = async () => Object.assign(run, await get("/api/run"));

/** @param {string} id */
export const categoryPath = (id) => `/api/categories/${encodeURIComponent(id)}`;

/** Listen for edits of other windows and programs. */
export function follow() {
  const events = new EventSource("/api/events");
  events.onmessage = async (event) => {
    await posting; // an edit of this window may be told of here before it is answered
    if (JSON.parse(event.data).version <= run.version) return;
    await refresh();
    tell();
  };
}
