"use strict";
// Optional: the page is complete without this script, which shows one window, one run and one
// collection at a time.
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

  // Shows what belongs to the selected window, transcript and strategy.
  const controls = [...document.querySelectorAll("form select, form input")];
  const status = document.getElementById("status");
  const choose = () => {
    const choice = {};
    for (const control of controls) {
      if (control.type !== "radio" || control.checked) choice[control.name] = control.value;
    }
    const fits = (part) =>
      Object.entries(part.dataset).every(([name, value]) => (choice[name] ?? value) === value);
    for (const part of document.querySelectorAll(".choice")) {
      part.classList.toggle("chosen", fits(part));
    }
    if (!status) return;
    const cell = document.querySelector(".cell.chosen");
    status.classList.toggle("hide", cell !== null);
    status.textContent = cell
      ? "Showing " + cell.querySelector("h3").textContent
      : "This transcript could not be replayed in this window.";
  };
  for (const control of controls) control.addEventListener("change", choose);

  for (const box of document.querySelectorAll(".toggles input")) {
    box.addEventListener("change", () => {
      document.getElementById(box.dataset.line).classList.toggle("shown", box.checked);
    });
  }

  // Steps through the collections of a run.
  for (const timeline of document.querySelectorAll(".timeline:has(.steps)")) {
    const steps = [...timeline.querySelectorAll(".steps > li")];
    const marks = [...timeline.querySelectorAll(".mark")];
    const previous = timeline.querySelector(".previous");
    const next = timeline.querySelector(".next");
    let at = 0;
    const show = (to) => {
      at = Math.max(0, Math.min(to, steps.length - 1));
      steps.forEach((step, n) => step.classList.toggle("current", n === at));
      marks.forEach((mark, n) => {
        mark.tabIndex = n === at ? 0 : -1;
        if (n === at) mark.setAttribute("aria-current", "step");
        else mark.removeAttribute("aria-current");
      });
      previous.setAttribute("aria-disabled", String(at === 0));
      next.setAttribute("aria-disabled", String(at === steps.length - 1));
    };
    previous.addEventListener("click", () => show(at - 1));
    next.addEventListener("click", () => show(at + 1));
    marks.forEach((mark, n) =>
      mark.addEventListener("click", (event) => {
        event.preventDefault();
        show(n);
      }),
    );
    timeline.addEventListener("keydown", (event) => {
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: steps.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const onMark = document.activeElement.classList.contains("mark");
      show(to);
      if (onMark) marks[at].focus();
    });
    show(0);
  }

  // Opens what belongs to the selection while the page is printed.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".chosen details:not([open]), .missing details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
});
