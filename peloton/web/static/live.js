// Keeps the marked parts of a page current, from the page's event stream.
"use strict";
(() => {
  const page = document.body.dataset.page;
  const csrf = document.querySelector('meta[name="csrf"]').content;
  const trouble = document.getElementById("trouble");
  const liveness = document.getElementById("liveness");
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  let source = null;
  let waiting = null;

  const relative = (time) => {
    const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
    const size = Math.abs(seconds);
    if (size < 1) return "now";
    const [unit, name] = UNITS.find(([least]) => size >= least);
    const text = `${Math.floor(size / unit)} ${name}`;
    return seconds > 0 ? `${text} ago` : `in ${text}`;
  };
  const showTimes = (within) => {
    for (const time of within.querySelectorAll("time[data-relative]")) {
      const text = relative(time);
      if (time.textContent !== text) time.textContent = text;
    }
  };

  // Makes `old` like `fresh` and leaves alone what is alike: focus, selection and open parts stay.
  const morphChildren = (old, fresh) => {
    let was = old.firstChild;
    let is = fresh.firstChild;
    while (is) {
      const nextIs = is.nextSibling;
      if (!was) {
        old.appendChild(is);
      } else if (was.nodeName === is.nodeName && (was.id || "") === (is.id || "")) {
        const nextWas = was.nextSibling;
        morph(was, is);
        was = nextWas;
      } else {
        const nextWas = was.nextSibling;
        old.replaceChild(is, was);
        was = nextWas;
      }
      is = nextIs;
    }
    while (was) {
      const nextWas = was.nextSibling;
      was.remove();
      was = nextWas;
    }
  };
  const morph = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name, value } of [...fresh.attributes]) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
    }
    morphChildren(old, fresh);
  };

  const show = ({ name, html }) => {
    const place = document.querySelector(`[data-live="${CSS.escape(name)}"]`);
    if (!place) return;
    if (!place.dispatchEvent(new CustomEvent("newer", { detail: html, cancelable: true }))) {
      place.removeAttribute("data-seen");
      return; // its rows are not made yet: folded.js has them
    }
    const template = document.createElement("template");
    template.innerHTML = html;
    for (const input of template.content.querySelectorAll('input[name="csrf"]')) input.setAttribute("value", csrf);
    for (const input of place.querySelectorAll("input[data-keep], select[data-keep]")) {
      const twin = input.id && template.content.getElementById(input.id);
      if (twin) twin.replaceWith(input.cloneNode(true));
    }
    showTimes(template.content);
    morphChildren(place, template.content);
    place.removeAttribute("data-seen");
  };

  // What came with the page need not be sent again: that would double the work of a table of a thousand rows.
  const LONGEST_SEEN = 8000;
  const seen = () => {
    const places = document.querySelectorAll("[data-live][data-seen]");
    const pairs = [...places].map(({ dataset }) => `${dataset.live}:${dataset.seen}`).join(",");
    return pairs && pairs.length < LONGEST_SEEN ? `&seen=${encodeURIComponent(pairs)}` : "";
  };

  const note = (text) => {
    trouble.textContent = text ? `Not current: ${text}` : "";
    trouble.hidden = !text;
  };
  const state = (text) => {
    liveness.textContent = text;
    liveness.className = text === "Live" ? "live" : "stale";
    liveness.hidden = false;
  };

  const open = () => {
    if (source) return;
    source = new EventSource(`/live?page=${encodeURIComponent(page)}${seen()}`);
    source.addEventListener("open", () => note(""));
    source.addEventListener("fragment", (event) => { show(JSON.parse(event.data)); state("Live"); });
    source.addEventListener("trouble", (event) => {
      const { text } = JSON.parse(event.data);
      note(text);
      state(text ? "Not current" : "Live");
    });
    source.addEventListener("error", () => {
      state("Not connected");
      note("the connection to peloton-web is lost; it is tried again");
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      source = null;
      clearTimeout(waiting);
      waiting = setTimeout(open, 3000);
    });
  };
  const close = () => {
    clearTimeout(waiting);
    if (source) source.close();
    source = null;
  };

  // A page that nobody sees costs nothing; browsers allow few connections to one server.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", () => { if (!document.hidden) open(); });
  setInterval(() => showTimes(document), 1000);
  showTimes(document);
  if (!document.hidden) open();
})();
