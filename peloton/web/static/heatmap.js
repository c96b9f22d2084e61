// The heat map of hosts: the value of the host in focus, arrow keys, and new values as they come.
"use strict";
(() => {
  const STEPS = 10;
  const map = document.getElementById("heatmap");
  const output = document.getElementById("heat-value");
  let applied = document.getElementById("heat-values").dataset.values;

  const show = (cell) => { output.textContent = cell.title; };
  const cellOf = (target) => (target instanceof Element ? target.closest(".cells a") : null);
  map.addEventListener("mouseover", ({ target }) => { const cell = cellOf(target); if (cell) show(cell); });
  map.addEventListener("focusin", ({ target }) => { const cell = cellOf(target); if (cell) show(cell); });

  // One stop of the tab key in each group; the arrow keys move within it.
  const below = (cells, from, step) => {
    const { left, top } = cells[from].getBoundingClientRect();
    for (let at = from + step; at >= 0 && at < cells.length; at += step) {
      const place = cells[at].getBoundingClientRect();
      if (place.top !== top && Math.abs(place.left - left) < place.width) return at;
    }
    return from;
  };
  map.addEventListener("keydown", (event) => {
    const cell = cellOf(event.target);
    if (!cell || event.ctrlKey || event.metaKey || event.altKey) return;
    const cells = [...cell.parentElement.children];
    const at = cells.indexOf(cell);
    const places = {
      ArrowRight: () => Math.min(at + 1, cells.length - 1),
      ArrowLeft: () => Math.max(at - 1, 0),
      ArrowDown: () => below(cells, at, 1),
      ArrowUp: () => below(cells, at, -1),
      Home: () => 0,
      End: () => cells.length - 1,
    };
    if (!(event.key in places)) return;
    event.preventDefault();
    const next = cells[places[event.key]()];
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });

  const paint = (values) => {
    const old = applied.split(" ");
    const fresh = values.split(" ");
    const cells = map.querySelectorAll(".cells a");
    for (let at = 0; at < cells.length && at < fresh.length; at += 1) {
      if (fresh[at] === old[at]) continue;
      const percent = Number.parseInt(fresh[at], 10);
      const known = !Number.isNaN(percent);
      const name = cells[at].title.slice(0, cells[at].title.lastIndexOf(": "));
      const words = { out: "in maintenance", none: "nothing of this kind" };
      cells[at].className = `l${known ? Math.min(Math.floor((percent * STEPS) / 100), STEPS - 1) : fresh[at]}`;
      cells[at].title = `${name}: ${known ? `${percent} %` : words[fresh[at]]}`;
      if (cells[at] === document.activeElement) show(cells[at]);
    }
    applied = values;
  };

  // Hosts came or went, or changed their group: the map is read again.
  let loading = false;
  const reload = async () => {
    if (loading) return;
    loading = true;
    try {
      const answer = await fetch(location.href);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const other = fresh.getElementById("heatmap");
      if (!answer.ok || !other) return;
      map.replaceChildren(...other.childNodes);
      map.dataset.shape = other.dataset.shape;
      applied = fresh.getElementById("heat-values").dataset.values;
    } finally {
      loading = false;
    }
  };

  const follow = () => {
    const { shape, values } = document.getElementById("heat-values").dataset;
    if (shape !== map.dataset.shape) reload();
    else if (values !== applied) paint(values);
  };
  const place = document.querySelector('[data-live="values"]');
  new MutationObserver(follow).observe(place, { subtree: true, childList: true, attributes: true });
})();
