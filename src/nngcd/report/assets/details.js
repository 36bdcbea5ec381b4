"use strict";
// What the page knows of every image it shows; an image is an index ("entry") into these arrays.
const DATA = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// Names are data: they enter the page as text, never as HTML.
function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

const pictures = new Map(Object.entries(DATA.thumbs).map(([entry, uri]) => [Number(entry), uri]));
for (const image of document.querySelectorAll(".thumb img")) pictures.set(Number(image.dataset.entry), image.src);

const details = {
  list: [],
  at: 0,

  // Show one image of a list; the buttons and arrow keys walk through the list.
  open(list, at) {
    this.list = list;
    this.at = at;
    this.show();
    if (!byId("details").open) byId("details").showModal();
  },

  show() {
    const entry = this.list[this.at];
    byId("details-name").textContent = DATA.file[entry];
    const box = byId("details-picture");
    box.replaceChildren();
    if (pictures.has(entry)) {
      const image = make("img");
      image.src = pictures.get(entry);
      image.alt = DATA.file[entry];
      box.append(image);
    } else {
      box.append(make("p", "no thumbnail on this page", "quiet"));
    }
    byId("details-facts").replaceChildren(...this.facts(entry));
    byId("details-before").disabled = this.at === 0;
    byId("details-after").disabled = this.at === this.list.length - 1;
  },

  facts(entry) {
    const [name, , hasCard] = DATA.categories[DATA.category[entry]];
    const link = make(hasCard ? "a" : "span", name);
    if (hasCard) link.href = "#c" + DATA.category[entry];
    const rows = [["Category", link], ["Status", DATA.status[entry]]];
    if (DATA.given[entry] !== null) rows.push(["Label you gave", DATA.given[entry]]);
    if (DATA.confidence[entry] !== null) rows.push(["Confidence", DATA.confidence[entry].toFixed(2)]);
    if (DATA.novelty[entry] !== null) rows.push(["Novelty", DATA.novelty[entry].toFixed(2)]);
    const others = DATA.others[entry].map(([other, p]) => other + (p === null ? "" : " " + p.toFixed(2)));
    if (others.length) rows.push(["Next best", others.join(", ")]);
    return rows.flatMap(([title, value]) => {
      const cell = make("dd");
      cell.append(value);
      return [make("dt", title), cell];
    });
  },

  step(by) {
    const next = this.at + by;
    if (next < 0 || next >= this.list.length) return;
    this.at = next;
    this.show();
  },
};

byId("details-before").addEventListener("click", () => details.step(-1));
byId("details-after").addEventListener("click", () => details.step(1));
byId("details-close").addEventListener("click", () => byId("details").close());
byId("details").addEventListener("keydown", (event) => {
  if (event.key === "ArrowLeft") details.step(-1);
  if (event.key === "ArrowRight") details.step(1);
});
byId("details").addEventListener("click", (event) => {
  if (event.target === byId("details") || event.target.closest("a")) byId("details").close();
});
