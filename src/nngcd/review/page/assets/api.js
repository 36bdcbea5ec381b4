/** Talking to the server. Every edit names the version it was made on; the server refuses one made on an older version. */

export const run = { version: 0 };
const listeners = [];
let posting = Promise.resolve(); // the last edit of this window

/** @param {() => void} listener called whenever somebody else changed the review */
export const onChange = (listener) => listeners.push(listener);

async function answer(response) {
  const values = await response.json().catch(() => ({ error: "The server's answer could not be read." }));
  if (!response.ok) throw Object.assign(new Error(values.error), { status: response.status });
  return values;
}

const lost = () => Object.assign(new Error("The server does not answer. Is `nngcd review` still running?"), { status: 0 });

export async function get(path) {
  return answer(await fetch(path).catch(() => { throw lost(); }));
}

function post(path, body) {
  const done = send(path, body);
  posting = done.catch(() => {});
  return done;
}

async function send(path, body) {
  const sent = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, sent).catch(() => { throw lost(); });
  try {
    Object.assign(run, await answer(response));
  } catch (error) {
    if (error.status === 409) await refresh().then(() => listeners.forEach((listener) => listener()));
    throw error;
  }
  return run;
}

/** Several changes are one edit, undone together. @param {...Object} changes */
export const edit = (...changes) => post("/api/edits", { version: run.version, changes });
export const undo = (n = 1) => post("/api/undo", { version: run.version, n });
export const redo = (n = 1) => post("/api/redo", { version: run.version, n });

export async function refresh() {
  return Object.assign(run, await get("/api/run"));
}

/** Listen for edits of other windows and programs. */
export function follow() {
  const events = new EventSource("/api/events");
  events.onmessage = async (event) => {
    await posting; // an edit of this window may be told of here before it is answered
    if (JSON.parse(event.data).version <= run.version) return;
    await refresh();
    listeners.forEach((listener) => listener());
  };
}
