// The box in the header: Ctrl-K or / leads to it, and what it finds is listed below it while one types.
"use strict";
(() => {
  const form = document.getElementById("find");
  const box = form.querySelector("input");
  const list = document.getElementById("find-lines");
  const WAIT = 150;
  let waiting = null;
  let asked = 0;

  const close = () => {
    clearTimeout(waiting);
    asked += 1; // answers that are under way come too late
    list.hidden = true;
  };
  const show = async () => {
    const text = box.value.trim();
    if (!text) return close();
    asked += 1;
    const mine = asked;
    try {
      const answer = await fetch(`/search/lines?q=${encodeURIComponent(text)}`, { redirect: "error" });
      if (!answer.ok) return;
      const html = await answer.text();
      if (mine !== asked) return;
      list.innerHTML = html;
      list.hidden = false;
    } catch {
      // Not reachable, or logged out: Enter leads to a page that says so.
    }
  };
  // Arrows walk through the box and the links below it, in a circle.
  const step = (by) => {
    const stops = [box, ...list.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement);
    stops[(at + by + stops.length) % stops.length].focus();
  };

  box.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(show, WAIT);
  });
  form.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "Escape") {
      close();
      box.focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      step(event.key === "ArrowDown" ? 1 : -1);
    } else {
      return;
    }
    event.preventDefault();
  });
  form.addEventListener("focusout", (event) => { if (!form.contains(event.relatedTarget)) close(); });
  addEventListener("pagehide", close);
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select");
    const slash = event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
    const ctrlK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (!slash && !ctrlK) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
})();
