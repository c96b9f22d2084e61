// Rows of a long table: they come as a text, and become rows when they come near the window, or are looked for. To style
// and lay out those of a thousand pools at once takes a second, and few of them are seen.
"use strict";
(() => {
  const NEAR = "1500px 0px";
  const source = document.getElementById("folded");
  if (!source) return;
  const waiting = new Map(); // the HTML of rows by the name of their live part
  for (const [, name, html] of source.textContent.matchAll(/<tbody data-rows="([^"]+)">([^]*?)<\/tbody>/g)) {
    waiting.set(name, html);
  }
  source.remove();
  const places = new Map([...document.querySelectorAll("tbody.folded")].map((place) => [place, place.dataset.live]));

  const unfold = (place) => {
    const focused = place.contains(document.activeElement);
    place.innerHTML = waiting.get(places.get(place));
    place.classList.remove("folded");
    waiting.delete(places.get(place));
    places.delete(place);
    observer.unobserve(place);
    const link = focused && place.querySelector("a, button");
    if (link) link.focus();
  };
  const unfoldAll = () => [...places.keys()].forEach(unfold);
  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting && places.has(target)) unfold(target);
  }, { rootMargin: NEAR });

  for (const place of places.keys()) {
    place.addEventListener("click", () => { if (places.has(place)) unfold(place); });
    // Newer rows, from live.js: they wait like those before. None are left where pools were deleted.
    place.addEventListener("newer", (event) => {
      if (!places.has(place)) return;
      event.preventDefault();
      waiting.set(places.get(place), event.detail);
      if (!event.detail.trim()) unfold(place);
    });
    observer.observe(place);
  }
  // What the browser looks for or prints has to be there.
  addEventListener("keydown", ({ key, ctrlKey, metaKey }) => { if (key === "f" && (ctrlKey || metaKey)) unfoldAll(); });
  addEventListener("beforeprint", unfoldAll);
})();
