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

  const levelOf = (value) => {
    const percent = Number.parseInt(value, 10);
    return Number.isNaN(percent) ? value : Math.min(Math.floor((percent * STEPS) / 100), STEPS - 1);
  };
  const retitle = (cell, value) => {
    const words = { out: "in maintenance", none: "nothing of this kind" };
    const name = cell.title.slice(0, cell.title.lastIndexOf(": "));
    cell.title = `${name}: ${value in words ? words[value] : `${Number.parseInt(value, 10)} %`}`;
  };

  // Thousands of hosts are drawn: to style and lay out a link for each would take most of the page's time. There are
  // links for the host in focus and for the one below the mouse, made of the HTML that browsers without scripts show.
  const CELL = 10;
  const PITCH = 12;
  const make = (name, attributes = {}) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  class Drawing {
    constructor(place, values) {
      this.place = place;
      this.links = place.querySelector("noscript").innerHTML.split("</a>").slice(0, -1);
      this.first = this.values = values;
      this.svg = make("svg", { "aria-hidden": "true" });
      this.focused = this.link(0);
      this.hovered = null;
      place.append(this.svg, this.focused);
      place.addEventListener("mousemove", (event) => this.hover(event));
      place.addEventListener("mouseleave", () => this.leave());
      new ResizeObserver(() => this.draw()).observe(place);
    }

    link(at) {
      const template = document.createElement("template");
      template.innerHTML = `${this.links[at].trim()}</a>`;
      const cell = template.content.firstElementChild;
      cell.dataset.at = at;
      cell.tabIndex = 0;
      return this.update(cell);
    }

    update(cell) {
      const at = Number(cell.dataset.at);
      cell.className = `l${levelOf(this.values[at])}`;
      if (this.values[at] !== this.first[at]) retitle(cell, this.values[at]);
      cell.style.left = `${(at % this.columns) * PITCH}px`;
      cell.style.top = `${Math.floor(at / this.columns) * PITCH}px`;
      return cell;
    }

    get columns() {
      return Math.max(Math.floor((this.place.clientWidth + PITCH - CELL) / PITCH), 1);
    }

    draw() {
      const columns = this.columns;
      const shapes = new Map();
      this.values.forEach((value, at) => {
        const level = levelOf(value);
        const x = (at % columns) * PITCH + 0.5;
        const y = Math.floor(at / columns) * PITCH + 0.5;
        shapes.set(level, `${shapes.get(level) || ""}M${x} ${y}h${CELL - 1}v${CELL - 1}h${1 - CELL}z`);
      });
      const out = make("pattern", { id: `out-${this.place.id}`, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(-45)" });
      out.append(make("rect", { width: 2, height: 5 }));
      const paths = [...shapes].map(([level, d]) => make("path", { class: `l${level}`, d, fill: `url(#${out.id})` }));
      this.svg.setAttribute("width", columns * PITCH);
      this.svg.setAttribute("height", Math.ceil(this.values.length / columns) * PITCH);
      this.svg.replaceChildren(out, ...paths);
      for (const cell of [this.focused, this.hovered]) if (cell) this.update(cell);
    }

    move(key) {
      const at = Number(this.focused.dataset.at);
      const last = this.links.length - 1;
      const columns = this.columns;
      const places = {
        ArrowRight: Math.min(at + 1, last),
        ArrowLeft: Math.max(at - 1, 0),
        ArrowDown: at + columns <= last ? at + columns : at,
        ArrowUp: at >= columns ? at - columns : at,
        Home: 0,
        End: last,
      };
      const next = this.link(places[key]);
      this.focused.replaceWith(next);
      this.focused = next;
      next.focus();
    }

    hover({ clientX, clientY }) {
      const { left, top } = this.place.getBoundingClientRect();
      const column = Math.floor((clientX - left) / PITCH);
      const at = Math.floor((clientY - top) / PITCH) * this.columns + column;
      if (column < 0 || column >= this.columns || at < 0 || at >= this.links.length) return this.leave();
      if (this.hovered && Number(this.hovered.dataset.at) === at) return undefined;
      this.leave();
      this.hovered = this.link(at);
      this.hovered.tabIndex = -1;
      this.hovered.setAttribute("aria-hidden", "true");
      this.place.append(this.hovered);
      return show(this.hovered);
    }

    leave() {
      if (this.hovered) this.hovered.remove();
      this.hovered = null;
    }

    paint(values) {
      this.values = values;
      this.draw();
      if (this.focused === document.activeElement) show(this.focused);
    }
  }

  let drawings = [];
  const parts = (values) => {
    const all = values.split(" ");
    let first = 0;
    return [...map.querySelectorAll(".drawn")].map(({ dataset }) => all.slice(first, (first += Number(dataset.hosts))));
  };
  const drawAll = () => {
    const values = parts(applied);
    drawings = [...map.querySelectorAll(".drawn")].map((place, at) => new Drawing(place, values[at]));
  };
  drawAll();

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
    const drawing = drawings.find(({ place }) => place === cell.parentElement);
    if (drawing) {
      if (!["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Home", "End"].includes(event.key)) return;
      event.preventDefault();
      drawing.move(event.key);
      return;
    }
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
    const fresh = values.split(" ");
    if (drawings.length) {
      const cut = parts(values);
      drawings.forEach((drawing, at) => drawing.paint(cut[at]));
    } else {
      const old = applied.split(" ");
      const cells = map.querySelectorAll(".cells a");
      for (let at = 0; at < cells.length && at < fresh.length; at += 1) {
        if (fresh[at] === old[at]) continue;
        cells[at].className = `l${levelOf(fresh[at])}`;
        retitle(cells[at], fresh[at]);
        if (cells[at] === document.activeElement) show(cells[at]);
      }
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
      drawAll();
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
