/** Pictures load when they come near the screen, a few at a time. */

/** A browser opens six connections to a server, and one has to be free for what a key asks for. */
const MOST_LOADING = 4;
const NEAR = "300px";

/** @type {HTMLImageElement[]} */
const waiting = [];
let nLoading = 0;

const observer = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      waiting.push(/** @type {HTMLImageElement} */ (target));
    }
    loadNext();
  },
  { rootMargin: NEAR },
);

function loadNext() {
  while (nLoading < MOST_LOADING && waiting.length) {
    const image = /** @type {HTMLImageElement} */ (waiting.shift());
    if (image.isConnected) load(image);
  }
}

/** @param {HTMLImageElement} image */
function load(image) {
  const ended = () => {
    nLoading -= 1;
    loadNext();
  };
  nLoading += 1;
  image.addEventListener("load", ended, { once: true });
  image.addEventListener("error", ended, { once: true });
  image.src = image.dataset.src ?? "";
}

/** Load an image when it is nearly in sight. @param {HTMLImageElement} image @param {string} src */
export function loadLater(image, src) {
  image.dataset.src = src;
  observer.observe(image);
}
