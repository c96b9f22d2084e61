// The choice between the light and the dark theme: the system's until somebody chooses.
"use strict";
(() => {
  const root = document.documentElement;
  const names = { "": "System theme", light: "Light theme", dark: "Dark theme" };
  const next = { "": "light", light: "dark", dark: "" };
  const stored = () => {
    try {
      const held = localStorage.getItem("peloton-theme") || "";
      return held in names ? held : "";
    } catch {
      return ""; // storage may be switched off
    }
  };
  const apply = (theme) => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  let theme = stored();
  apply(theme); // before the body is there, so that nothing flashes
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => {
      const [first, rest] = names[theme].split(" ");
      const long = document.createElement("span");
      long.className = "long";
      long.textContent = ` ${rest}`;
      button.replaceChildren(first, long);
      button.setAttribute("aria-label", names[theme]);
    };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      theme = next[theme];
      apply(theme);
      label();
      try {
        localStorage.setItem("peloton-theme", theme);
      } catch {
        // it lasts for this page only
      }
    });
  });
})();
