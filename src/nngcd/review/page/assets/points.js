/** The points of the map: one array for each property, as the server sends them. */
import { get, getBinary, run } from "./api.js";
/** @import {Category} from "./types.js" */

/** @typedef {{n: number, version: number, categories: string[], statuses: string[], columns: [string, string][]}} Header */

/** @type {Object<string, (buffer: ArrayBuffer, at: number, n: number) => any>} */
const TYPES = {
  float32: (buffer, at, n) => new Float32Array(buffer, at, n),
  int32: (buffer, at, n) => new Int32Array(buffer, at, n),
  uint8: (buffer, at, n) => new Uint8Array(buffer, at, n),
};
const TEXT = new TextDecoder();
const padded = (/** @type {number} */ size) => size + ((4 - (size % 4)) % 4);

/**
 * Read the columns of a binary answer: the length of a header, the header as JSON, then one column after the other.
 * @param {ArrayBuffer} buffer
 * @returns {{header: Header, columns: Object<string, any>}} columns of text are their bytes
 */
export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  /** @type {Header} */
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  /** @type {Object<string, any>} */
  const columns = {};
  let at = 4 + length;
  for (const [name, type] of header.columns) {
    const width = type.startsWith("char") ? Number(type.slice(4)) : 0;
    columns[name] = width ? new Uint8Array(buffer, at, header.n * width) : TYPES[type](buffer, at, header.n);
    at = padded(at + columns[name].byteLength);
  }
  return { header, columns };
}

export class Points {
  /** @param {ArrayBuffer} buffer @param {Map<string, string>} names of categories, by their ids */
  constructor(buffer, names) {
    const { header, columns } = decode(buffer);
    this.n = header.n;
    this.version = header.version;
    this.categories = header.categories;
    this.statuses = header.statuses;
    this.names = names;
    /** @type {Float32Array} */
    this.x = columns.x;
    /** @type {Float32Array} */
    this.y = columns.y;
    /** @type {Float32Array} */
    this.confidence = columns.confidence;
    /** @type {Int32Array} */
    this.category = columns.category;
    /** @type {Uint8Array} */
    this.status = columns.status;
    /** @type {Uint8Array} */
    this.reviewed = columns.reviewed;
    /** @type {Uint8Array} */
    this.ids = columns.id;
    this.leastSure = leastSureFirst(this.confidence);
  }

  static async load() {
    const [buffer, names] = await Promise.all([getBinary("/api/points.bin"), loadNames()]);
    return new Points(buffer, names);
  }

  /** Take over what was edited since. @returns {Promise<boolean>} whether anything was */
  async follow() {
    if (this.version === run.version) return false;
    const path = `/api/points/categories.bin?version=${this.version}`;
    const [buffer, names] = await Promise.all([getBinary(path), loadNames()]);
    const { header, columns } = decode(buffer);
    columns.row.forEach((/** @type {number} */ row, /** @type {number} */ i) => {
      this.category[row] = columns.category[i];
      this.status[row] = columns.status[i];
      this.reviewed[row] = columns.reviewed[i];
    });
    [this.version, this.categories, this.names] = [header.version, header.categories, names];
    return true;
  }

  /** @param {number} row */
  id(row) {
    const width = this.ids.length / this.n;
    const bytes = this.ids.subarray(row * width, (row + 1) * width);
    return TEXT.decode(bytes).replace(/\0+$/, "");
  }

  /** @param {number} row of a category, -1 for none */
  categoryName(row) {
    const id = this.categories[this.category[row]];
    return id === undefined ? "in no category" : (this.names.get(id) ?? id);
  }
}

/**
 * Rows with the least sure first, as everywhere; images without a confidence last.
 * @param {Float32Array} confidence
 */
function leastSureFirst(confidence) {
  // One number for both, since numbers alone are sorted many times faster.
  const most = 2 ** 24; // rows
  const keys = Float64Array.from(confidence, (one, row) => Math.round(1e6 * (one >= 0 ? one : 2)) * most + row);
  return Int32Array.from(keys.sort(), (key) => key % most);
}

/** Only the largest categories: no legend has room for more, and the others are called by their ids. */
async function loadNames() {
  const { items } = await get("/api/categories?sort=size&typical=0&n=400");
  return new Map(items.map((/** @type {Category} */ one) => [one.id, one.name]));
}
