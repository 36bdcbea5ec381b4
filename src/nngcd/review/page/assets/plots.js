/** Drawing points, with WebGL2 where the browser has it and on a 2-D canvas where it has not. */
import { h } from "./dom.js";
/** @import {Points} from "./points.js" */
/** @import {View} from "./view.js" */

const VERTEX = `#version 300 es
in float x; in float y; in vec4 colour;
uniform vec2 origin; uniform vec2 size; uniform float side; uniform float radius;
out vec4 tint;
void main() {
  vec2 at = (origin + side * vec2(x, y)) / size;
  gl_Position = vec4(2.0 * at.x - 1.0, 1.0 - 2.0 * at.y, 0.0, 1.0);
  gl_PointSize = colour.a == 0.0 ? 0.0 : 2.0 * radius;
  tint = colour;
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 tint; out vec4 made;
void main() {
  if (tint.a == 0.0 || distance(gl_PointCoord, vec2(0.5)) > 0.5) discard;
  made = vec4(tint.rgb * tint.a, tint.a);
}`;

/** Radius of a point in CSS pixels: small where there are many, larger the further one looks in. */
const radiusOf = (/** @type {Points} */ points, /** @type {View} */ view) =>
  Math.min(7, Math.max(1.1, Math.min(4, 150 / Math.sqrt(points.n))) * view.zoom ** 0.35);

/** @typedef {{canvas: HTMLCanvasElement, kind: string, colour: (rgba: Uint8Array) => void, draw: (view: View) => void}} Plot */

/**
 * @param {Points} points
 * @param {() => void} onLost called when the graphics card gives up
 * @returns {Plot}
 */
export function makePlot(points, onLost) {
  const canvas = h("canvas");
  const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true });
  if (!gl) return new CanvasPlot(points);
  canvas.addEventListener("webglcontextlost", onLost);
  return new WebGLPlot(points, canvas, gl);
}

/** Give a canvas the size of its view, in the pixels of the screen. @param {HTMLCanvasElement} canvas @param {View} view */
function fit(canvas, view) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(view.width * ratio), Math.round(view.height * ratio)];
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  return ratio;
}

class WebGLPlot {
  /** @param {Points} points @param {HTMLCanvasElement} canvas @param {WebGL2RenderingContext} gl */
  constructor(points, canvas, gl) {
    this.points = points;
    this.canvas = canvas;
    this.gl = gl;
    this.kind = "webgl2";
    const program = (this.program = gl.createProgram());
    this.add(gl.VERTEX_SHADER, VERTEX);
    this.add(gl.FRAGMENT_SHADER, FRAGMENT);
    gl.linkProgram(program);
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.column("x", 1, gl.FLOAT, points.x);
    this.column("y", 1, gl.FLOAT, points.y);
    this.colours = this.column("colour", 4, gl.UNSIGNED_BYTE, new Uint8Array(4 * points.n));
  }

  /** @param {number} type @param {string} source */
  add(type, source) {
    const shader = /** @type {WebGLShader} */ (this.gl.createShader(type));
    this.gl.shaderSource(shader, source);
    this.gl.compileShader(shader);
    this.gl.attachShader(this.program, shader);
  }

  /** @param {string} name @param {number} width @param {number} type @param {ArrayBufferView} values */
  column(name, width, type, values) {
    const { gl } = this;
    const buffer = gl.createBuffer();
    const place = gl.getAttribLocation(this.program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, width, type, type === gl.UNSIGNED_BYTE, 0, 0);
    return buffer;
  }

  /** @param {Uint8Array} rgba four numbers for each point; those of alpha 0 are not shown */
  colour(rgba) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.colours);
    this.gl.bufferSubData(this.gl.ARRAY_BUFFER, 0, rgba);
  }

  /** @param {View} view */
  draw(view) {
    const { gl, program } = this;
    const ratio = fit(this.canvas, view);
    const set = (/** @type {string} */ name, /** @type {number[]} */ ...values) => {
      const place = gl.getUniformLocation(program, name);
      if (values.length === 2) gl.uniform2f(place, values[0], values[1]);
      else gl.uniform1f(place, values[0]);
    };
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    set("origin", view.left, view.top);
    set("size", view.width, view.height);
    set("side", view.side);
    set("radius", radiusOf(this.points, view) * ratio);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.drawArrays(gl.POINTS, 0, this.points.n);
  }
}

/** Squares written into the pixels of a picture: a hundred thousand take a few milliseconds. */
export class CanvasPlot {
  /** @param {Points} points */
  constructor(points) {
    this.canvas = h("canvas");
    this.points = points;
    this.kind = "2d";
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    this.rgba = new Uint32Array(points.n);
  }

  /** @param {Uint8Array} rgba four numbers for each point; those of alpha 0 are not shown */
  colour(rgba) {
    this.rgba = new Uint32Array(rgba.slice().buffer);
  }

  /** @param {View} view */
  draw(view) {
    const ratio = fit(this.canvas, view);
    const { width, height } = this.canvas;
    const image = this.context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const radius = Math.max(0.5, radiusOf(this.points, view) * ratio * 0.9);
    const { x, y, n } = this.points;
    const [left, top, side] = [view.left * ratio, view.top * ratio, view.side * ratio];
    for (let row = 0; row < n; row += 1) {
      const tint = this.rgba[row];
      if (!tint) continue;
      const fromX = Math.max(0, Math.round(left + side * x[row] - radius));
      const fromY = Math.max(0, Math.round(top + side * y[row] - radius));
      const toX = Math.min(width, Math.round(left + side * x[row] + radius));
      const toY = Math.min(height, Math.round(top + side * y[row] + radius));
      for (let py = fromY; py < toY; py += 1) pixels.fill(tint, py * width + fromX, py * width + Math.max(fromX, toX));
    }
    this.context.putImageData(image, 0, 0);
  }
}
