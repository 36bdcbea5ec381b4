// The map: a canvas with zoom, pan, hover and a legend. Shapes tell known, new and unsure apart without colour.
const map = {
  canvas: byId("canvas"),
  entries: DATA.x.flatMap((x, entry) => (x < 0 ? [] : [entry])),
  scale: 1, x: 0.5, y: 0.5, // zoom, and what is in the middle, in units of the whole map
  extent: [1, 1], // what the points take of each axis
  hovered: -1, chosen: null, // chosen: the value of the legend that stands out
  drags: new Map(), moved: 0, pinch: 0,

  size() {
    return [this.canvas.clientWidth, this.canvas.clientHeight];
  },
  unit() {
    const [width, height] = this.size();
    return Math.min(width / this.extent[0], height / this.extent[1]) * 0.93 * this.scale;
  },
  place(entry) {
    const [width, height] = this.size(), unit = this.unit();
    return [width / 2 + (DATA.x[entry] / 10000 - this.x) * unit, height / 2 + (DATA.y[entry] / 10000 - this.y) * unit];
  },
  zoom(factor, px, py) {
    const [width, height] = this.size(), before = this.unit();
    this.scale = Math.min(60, Math.max(0.6, this.scale * factor));
    const after = this.unit();
    this.x += (px - width / 2) * (1 / before - 1 / after);
    this.y += (py - height / 2) * (1 / before - 1 / after);
    this.draw();
  },
  move(dx, dy) {
    this.x = Math.min(1.2, Math.max(-0.2, this.x - dx / this.unit()));
    this.y = Math.min(1.2, Math.max(-0.2, this.y - dy / this.unit()));
    this.draw();
  },
  measure() {
    const range = (values) => {
      let low = Infinity, high = -Infinity;
      for (const entry of this.entries) [low, high] = [Math.min(low, values[entry]), Math.max(high, values[entry])];
      return Math.max(0.05, (high - low) / 10000);
    };
    this.extent = [range(DATA.x), range(DATA.y)];
  },
  all() {
    [this.scale, this.x, this.y] = [1, 0.5, 0.5];
    this.draw();
  },
  nearest(px, py, within) {
    let best = -1, least = within * within;
    for (const entry of this.entries) {
      if (this.isDim(entry)) continue;
      const [x, y] = this.place(entry), distance = (x - px) ** 2 + (y - py) ** 2;
      if (distance <= least) [best, least] = [entry, distance];
    }
    return best;
  },

  group(entry) {
    if (this.by === "category") return DATA.category[entry];
    if (this.by === "status") return DATA.status[entry];
    const value = DATA[this.by][entry];
    return value === null ? -1 : Math.min(4, Math.floor(value * 5));
  },
  isDim(entry) {
    return this.chosen !== null && this.group(entry) !== this.chosen;
  },
  colour(group) {
    if (this.by === "category") {
      // Golden angle: neighbours in the list get hues far apart.
      const light = this.isDark ? [70, 60, 78] : [42, 54, 34];
      return `hsl(${Math.round((group * 137.508) % 360)} ${this.isDark ? 62 : 58}% ${light[group % 3]}%)`;
    }
    if (this.by === "status") return this.css[group] ?? this.css.unsure;
    if (group < 0) return this.css.rule;
    const lights = this.isDark ? [30, 42, 54, 68, 84] : [80, 66, 52, 38, 24];
    return `hsl(${this.by === "novelty" ? 22 : 210} 58% ${lights[group]}%)`;
  },
  readColours() {
    const style = getComputedStyle(document.documentElement);
    this.css = {};
    for (const name of ["known", "new", "unsure", "ink", "rule", "sheet"]) this.css[name] = style.getPropertyValue("--" + name).trim();
    this.isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  },

  shape(context, x, y, r, status) {
    context.beginPath();
    if (status === "new") {
      context.moveTo(x, y - r * 1.25);
      context.lineTo(x + r * 1.25, y);
      context.lineTo(x, y + r * 1.25);
      context.lineTo(x - r * 1.25, y);
      context.closePath();
    } else if (status === "unsure") {
      context.rect(x - r * 0.85, y - r * 0.85, r * 1.7, r * 1.7);
    } else {
      context.arc(x, y, r, 0, 2 * Math.PI);
    }
  },
  draw() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => this.drawNow());
  },
  drawNow() {
    this.waiting = 0;
    const [width, height] = this.size(), ratio = window.devicePixelRatio || 1;
    if (!width) return;
    const [pixels, lines] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== pixels || this.canvas.height !== lines) [this.canvas.width, this.canvas.height] = [pixels, lines];
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const r = Math.min(9, (this.entries.length > 3000 ? 2.2 : 3.4) * Math.sqrt(this.scale));
    const order = this.chosen === null ? this.entries : [...this.entries].sort((a, b) => this.isDim(b) - this.isDim(a));
    for (const entry of order) {
      const [x, y] = this.place(entry);
      if (x < -r || y < -r || x > width + r || y > height + r) continue;
      const dim = this.isDim(entry);
      context.globalAlpha = dim ? 0.35 : 0.85;
      context.fillStyle = dim ? this.css.rule : this.colour(this.group(entry));
      this.shape(context, x, y, r, DATA.status[entry]);
      context.fill();
    }
    context.globalAlpha = 1;
    if (this.hovered >= 0) {
      const [x, y] = this.place(this.hovered);
      context.strokeStyle = this.css.ink;
      context.lineWidth = 2;
      this.shape(context, x, y, r + 3, DATA.status[this.hovered]);
      context.stroke();
    }
  },

  hover(entry) {
    if (entry === this.hovered) return;
    this.hovered = entry;
    this.draw();
    const tip = byId("tip");
    tip.hidden = entry < 0;
    if (entry < 0) return;
    tip.replaceChildren();
    if (pictures.has(entry)) {
      const image = make("img");
      image.src = pictures.get(entry);
      image.alt = "";
      tip.append(image);
    }
    const given = DATA.given[entry] !== null;
    const confidence = DATA.confidence[entry];
    tip.append(make("div", DATA.categories[DATA.category[entry]][0]), make("div", DATA.file[entry], "quiet"));
    tip.append(make("div", given ? "labelled by you" : DATA.status[entry] + (confidence === null ? "" : ", confidence " + confidence.toFixed(2)), "quiet"));
    // Towards the middle, so that it stays inside whatever the picture's height turns out to be.
    const [width, height] = this.size(), [x, y] = this.place(entry);
    tip.style.left = x < width / 2 ? x + 14 + "px" : "";
    tip.style.right = x < width / 2 ? "" : width - x + 14 + "px";
    tip.style.top = y < height / 2 ? y + 10 + "px" : "";
    tip.style.bottom = y < height / 2 ? "" : height - y + 10 + "px";
  },

  legend() {
    this.by = byId("colour").value;
    const counts = new Map();
    for (const entry of this.entries) counts.set(this.group(entry), (counts.get(this.group(entry)) ?? 0) + 1);
    const groups = [...counts.keys()];
    if (this.by === "category") groups.sort((a, b) => (DATA.categories[a][1] === "new" ? 0 : 1) - (DATA.categories[b][1] === "new" ? 0 : 1) || counts.get(b) - counts.get(a) || a - b);
    else groups.sort();
    const unsure = DATA.status.includes("unsure") ? ", squares unsure" : "";
    byId("legend-words").textContent = `Circles are known, diamonds new${unsure}. Click an entry to highlight it.`;
    byId("legend").replaceChildren(...groups.map((group) => this.legendLine(group, counts.get(group))));
  },
  legendLine(group, count) {
    const line = make("li"), button = make("button"), space = "http://www.w3.org/2000/svg";
    const key = document.createElementNS(space, "svg"), shape = document.createElementNS(space, "path");
    const status = this.by === "category" ? DATA.categories[group][1] : this.by === "status" ? group : "known";
    key.setAttribute("viewBox", "0 0 14 14");
    key.setAttribute("aria-hidden", "true");
    shape.setAttribute("d", status === "new" ? "M7 1 13 7 7 13 1 7Z" : status === "unsure" ? "M3 3H11V11H3Z" : "M2 7a5 5 0 1 0 10 0a5 5 0 1 0-10 0");
    shape.setAttribute("fill", this.colour(group));
    key.append(shape);
    const ranges = ["0 to 0.2", "0.2 to 0.4", "0.4 to 0.6", "0.6 to 0.8", "0.8 to 1"];
    const name = this.by === "category" ? DATA.categories[group][0] : this.by === "status" ? group : (ranges[group] ?? "not known");
    button.type = "button";
    button.append(key, make("span", name), make("span", count.toLocaleString("en"), "n"));
    button.setAttribute("aria-pressed", String(this.chosen === group));
    button.addEventListener("click", () => this.choose(this.chosen === group ? null : group));
    button.dataset.group = group;
    line.append(button);
    return line;
  },
  choose(group) {
    this.chosen = group;
    for (const button of byId("legend").querySelectorAll("button")) button.setAttribute("aria-pressed", String(group !== null && button.dataset.group === String(group)));
    this.hover(-1);
    this.draw();
  },
};

function within(event) {
  const box = map.canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

map.canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  map.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0016)), ...within(event));
}, { passive: false });
map.canvas.addEventListener("pointerdown", (event) => {
  map.canvas.setPointerCapture(event.pointerId);
  map.drags.set(event.pointerId, within(event));
  if (map.drags.size === 1) map.moved = 0;
});
map.canvas.addEventListener("pointermove", (event) => {
  const now = within(event), before = map.drags.get(event.pointerId);
  if (!before) return map.hover(map.nearest(...now, 14));
  const other = [...map.drags].find(([id]) => id !== event.pointerId)?.[1];
  map.drags.set(event.pointerId, now);
  if (other) {
    const far = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
    map.zoom(far(now) / far(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  } else {
    map.move(now[0] - before[0], now[1] - before[1]);
  }
  map.moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
});
for (const kind of ["pointerup", "pointercancel"]) map.canvas.addEventListener(kind, (event) => {
  const isClick = kind === "pointerup" && map.drags.size === 1 && map.moved < 5;
  map.drags.delete(event.pointerId);
  if (!isClick) return;
  const entry = map.nearest(...within(event), 18);
  if (entry >= 0) details.open([entry], 0);
});
map.canvas.addEventListener("pointerleave", () => map.hover(-1));
map.canvas.addEventListener("keydown", (event) => {
  const [width, height] = map.size(), step = 60;
  const actions = {
    ArrowLeft: () => map.move(step, 0), ArrowRight: () => map.move(-step, 0),
    ArrowUp: () => map.move(0, step), ArrowDown: () => map.move(0, -step),
    "+": () => map.zoom(1.4, width / 2, height / 2), "=": () => map.zoom(1.4, width / 2, height / 2),
    "-": () => map.zoom(1 / 1.4, width / 2, height / 2), 0: () => map.all(),
    Enter: () => map.hovered >= 0 && details.open([map.hovered], 0), Escape: () => map.choose(null),
  };
  if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  actions[event.key]();
  if (event.key !== "Enter") map.hover(map.nearest(width / 2, height / 2, Math.max(width, height)));
});
byId("zoom-in").addEventListener("click", () => map.zoom(1.4, ...map.size().map((side) => side / 2)));
byId("zoom-out").addEventListener("click", () => map.zoom(1 / 1.4, ...map.size().map((side) => side / 2)));
byId("zoom-all").addEventListener("click", () => map.all());
byId("colour").addEventListener("input", () => {
  map.chosen = null;
  map.legend();
  map.draw();
});
byId("cards").addEventListener("click", (event) => {
  const button = event.target.closest(".on-map");
  if (!button) return;
  byId("colour").value = "category";
  map.legend();
  map.choose(Number(button.dataset.category));
  byId("map").scrollIntoView();
  map.canvas.focus({ preventScroll: true });
});

if (map.entries.length) {
  map.measure();
  map.readColours();
  map.legend();
  new ResizeObserver(() => map.draw()).observe(map.canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    map.readColours();
    map.legend();
    map.draw();
  });
} else {
  for (const button of document.querySelectorAll(".on-map")) button.parentElement.hidden = true;
}
