// Search, filter and sort of the cards; a thumbnail opens its details.
const cards = [...document.querySelectorAll(".card")];
const number = (card, name) => (card.dataset[name] === "" ? null : Number(card.dataset[name]));

const filters = {
  all: () => true,
  new: (card) => card.dataset.kind === "new",
  known: (card) => card.dataset.kind === "known",
  unsure: (card) => number(card, "unsure") > 0,
  errors: (card) => number(card, "errors") > 0,
};

// Cards without a value come last.
const rising = (name) => (a, b) => (number(a, name) ?? Infinity) - (number(b, name) ?? Infinity);
const orders = {
  first: () => 0,
  size: (a, b) => number(b, "size") - number(a, "size"),
  name: (a, b) => a.dataset.name.localeCompare(b.dataset.name, undefined, { numeric: true }),
  cohesion: rising("cohesion"),
  confidence: rising("confidence"),
};

function plain(text) {
  return text.normalize("NFKC").toLowerCase();
}

function arrange() {
  const wanted = plain(byId("search").value.trim());
  const isWanted = filters[byId("filter").value];
  let count = 0;
  for (const card of cards) {
    const fits = isWanted(card) && plain(card.dataset.name + " " + card.dataset.id).includes(wanted);
    card.hidden = !fits;
    count += fits;
  }
  byId("cards").append(...[...cards].sort(orders[byId("sort").value]));
  byId("count").textContent = count === cards.length ? `${count} categories` : `${count} of ${cards.length} categories`;
  byId("nothing").hidden = count > 0;
}

byId("controls").hidden = false;
byId("controls").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["search", "filter", "sort"]) byId(id).addEventListener("input", arrange);
// A browser may keep what was typed when the page is opened again.
arrange();

// A link to a category must find its card, also when a filter hides it.
function reveal() {
  const card = location.hash.startsWith("#c") && byId(location.hash.slice(1));
  if (!card || !card.hidden) return;
  byId("search").value = "";
  byId("filter").value = "all";
  arrange();
  card.scrollIntoView();
}
window.addEventListener("hashchange", reveal);

byId("cards").addEventListener("click", (event) => {
  const thumb = event.target.closest(".thumb");
  if (!thumb) return;
  const strip = [...thumb.parentElement.children];
  details.open(strip.map((one) => Number(one.dataset.entry)), strip.indexOf(thumb));
});
