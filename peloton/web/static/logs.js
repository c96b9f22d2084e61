// Follows the output of a run, filters it, keeps it at its end.
"use strict";
(() => {
  const log = document.getElementById("log");
  if (!log) return;
  const MOST_LINES = 20000;
  const tools = document.getElementById("log-tools");
  const follow = document.getElementById("follow");
  const wrap = document.getElementById("wrap");
  const filter = document.getElementById("filter");
  const filtered = document.getElementById("filtered");
  const state = document.getElementById("log-state");
  const open = new Map();
  let source = null;
  let waiting = null;
  let last = "";
  let dropped = false;

  for (const line of log.querySelectorAll("[data-open]")) open.set(line.dataset.open, line);

  const matches = (line) => line.textContent.toLowerCase().includes(filter.value.toLowerCase());
  const showCount = () => {
    const lines = log.querySelectorAll(".line");
    const shown = log.querySelectorAll(".line:not([hidden])").length;
    filtered.textContent = filter.value ? `${shown} of ${lines.length} lines` : "";
  };
  const applyFilter = () => {
    for (const line of log.querySelectorAll(".line")) line.hidden = Boolean(filter.value) && !matches(line);
    showCount();
  };

  const lineFor = (file) => {
    const held = open.get(file);
    // A line goes on where it began, unless another file has written since.
    if (held && last === file) return held;
    const line = document.createElement("span");
    line.className = file === "stderr" ? "line stderr" : "line";
    log.append(line);
    open.set(file, line);
    last = file;
    return line;
  };
  const append = (file, text) => {
    if (open.has(file) && log.lastElementChild === open.get(file)) last = file;
    const rows = text.split("\n");
    rows.forEach((row, at) => {
      const whole = at < rows.length - 1;
      if (!row && !whole) return;
      const line = lineFor(file);
      const before = line.textContent.endsWith("\n") ? line.textContent.slice(0, -1) : line.textContent;
      line.textContent = `${before}${row}\n`;
      line.hidden = Boolean(filter.value) && !matches(line);
      if (whole) open.delete(file);
    });
    const lines = log.querySelectorAll(".line");
    for (let at = 0; at < lines.length - MOST_LINES; at++) lines[at].remove();
    if (lines.length > MOST_LINES && !dropped) {
      dropped = true;
      state.textContent = `Live. The last ${MOST_LINES} lines are kept here.`;
    }
    if (filter.value) showCount();
  };
  const toEnd = () => { log.scrollTop = log.scrollHeight; };
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 30;

  const stop = () => {
    clearTimeout(waiting);
    if (source) source.close();
    source = null;
  };
  let places = log.dataset.stream ? new URL(log.dataset.stream, location.href).searchParams.get("offsets") : "";
  const start = () => {
    if (source || !log.dataset.stream) return;
    const address = new URL(log.dataset.stream, location.href);
    address.searchParams.set("offsets", places);
    source = new EventSource(address);
    source.addEventListener("open", () => { state.textContent = "Live"; });
    source.addEventListener("text", (event) => {
      const stay = follow.checked && atEnd();
      const { file, text } = JSON.parse(event.data);
      append(file, text);
      places = event.lastEventId || places;
      if (stay) toEnd();
    });
    source.addEventListener("trouble", (event) => {
      state.textContent = JSON.parse(event.data).text || "Live";
    });
    source.addEventListener("over", (event) => {
      stop();
      delete log.dataset.stream;
      follow.checked = false;
      follow.disabled = true;
      state.textContent = `The run has ended: ${JSON.parse(event.data).state.toLowerCase()}.`;
    });
    source.addEventListener("error", () => {
      state.textContent = "The connection is lost; it is tried again.";
      if (!source || source.readyState !== EventSource.CLOSED) return;
      source = null;
      waiting = setTimeout(start, 3000);
    });
  };

  tools.hidden = false;
  wrap.addEventListener("change", () => log.classList.toggle("unwrapped", !wrap.checked));
  filter.addEventListener("input", applyFilter);
  filter.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
  if (log.dataset.end) toEnd();
  if (follow) {
    follow.addEventListener("change", () => {
      if (follow.checked) {
        toEnd();
        start();
      } else {
        stop();
        state.textContent = "Not followed.";
      }
    });
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) stop();
      else if (follow.checked) start();
    });
    addEventListener("pagehide", stop);
    if (!document.hidden) start();
  }
})();
