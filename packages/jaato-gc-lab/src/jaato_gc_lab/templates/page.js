"use strict";
// Optional: the page is complete without this script, which hides the charts that are not selected
// and adds keyboard and pointer navigation.
document.documentElement.classList.add("js");
document.addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement;

  // The colour scheme follows the system until the button is pressed.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.querySelector("button.theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const showTheme = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  });
  dark.addEventListener("change", showTheme);
  showTheme();

  // Shows one transcript in one window at a time.
  const form = document.querySelector("form.controls");
  if (form) {
    const status = document.getElementById("status");
    form.addEventListener("change", () => {
      const id = `cell-${form.elements.transcript.value}-${form.elements.context_limit.value}`;
      const chosen = document.getElementById(id);
      for (const cell of document.querySelectorAll(".cell")) {
        cell.classList.toggle("chosen", cell === chosen);
      }
      status.classList.toggle("hide", chosen !== null);
      status.textContent = chosen
        ? "Showing " + chosen.querySelector("h3").textContent
        : "This transcript could not be replayed in this window.";
    });
  }

  for (const marks of document.querySelectorAll(".marks")) {
    const all = [...marks.querySelectorAll(".mark")];
    // Each chart has one tab stop; the arrow keys move between its collections.
    const stopAt = (mark) => all.forEach((other) => (other.tabIndex = other === mark ? 0 : -1));
    stopAt(all[0]);
    marks.addEventListener("focusin", (event) => {
      marks.classList.remove("quiet");
      stopAt(event.target);
    });
    marks.addEventListener("keydown", (event) => {
      const at = all.indexOf(document.activeElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
      if (event.key === "Escape") marks.classList.add("quiet");
      if (to === undefined) return;
      event.preventDefault();
      marks.classList.remove("quiet");
      all[Math.max(0, Math.min(to, all.length - 1))].focus();
    });
    // The mark that is horizontally nearest to the pointer shows its details.
    const near = (found) => all.forEach((mark) => mark.classList.toggle("near", mark === found));
    marks.addEventListener("pointermove", (event) => {
      const box = marks.getBoundingClientRect();
      const away = (mark) =>
        Math.abs((parseFloat(mark.style.getPropertyValue("--x")) / 100) * box.width - (event.clientX - box.left));
      const nearest = all.reduce((best, mark) => (away(mark) < away(best) ? mark : best));
      marks.classList.remove("quiet");
      near(away(nearest) < 40 ? nearest : null);
    });
    marks.addEventListener("pointerleave", () => near(null));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") near(null);
    });
  }

  // Opens all details for printing.
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll(".chosen details")) details.open = true;
  });
});
