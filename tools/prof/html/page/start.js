"use strict";

// Draws the overview at once and each further view behind a paint, so that no trace keeps one
// waiting; draws charts anew where their colours change.

{
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 12;

  const root = document.documentElement;
  const waiting = [...kit.views];

  function drawNext() {
    const view = waiting.shift();
    if (!view) {
      root.dataset.drawn = "all";
      return;
    }
    view.draw();
    root.dataset.drawn = view.name;
    if (waiting.length > 0 || view.name !== "overview") setTimeout(drawNext, 0);
  }
  drawNext();

  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", kit.redraw);
  matchMedia("print").addEventListener("change", kit.redraw);

  // The view that is being read is marked in the list of views.
  const links = new Map([...document.querySelectorAll("nav a")]
    .map((link) => [link.hash.slice(1), link]));
  const seen = new Map();
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) seen.set(entry.target.id, entry.isIntersecting);
    const first = [...links.keys()].find((id) => seen.get(id));
    for (const [id, link] of links) {
      if (id === first) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, {rootMargin: "-20% 0px -55% 0px"});
  for (const id of links.keys()) watch.observe(kit.find(id));
}
