// What every page has: menus, questions, shortcuts, copy buttons, messages.

import { toast, words } from "./toast.js";

const dialog = document.getElementById("dialog");

// --- menus: one open at a time, closed by Escape or a click elsewhere ---

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
  const copy = event.target.closest("[data-copy]");
  if (copy) copyText(copy.dataset.copy);
  if (event.target.closest("#dialog [data-close]")) {
    event.preventDefault();
    dialog.close();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = document.querySelector("details.menu[open]");
  if (open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});

// --- questions: htmx puts them into the dialog ---

document.body.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target === dialog) dialog.showModal();
  reveal();
});
// What the reader has unfolded stays so when its part of the page comes anew.
let unfolded = [];
document.body.addEventListener("htmx:beforeSwap", () => {
  unfolded = [...document.querySelectorAll("details[id][open]")].map(({ id }) => id);
});
document.body.addEventListener("htmx:afterSwap", () => {
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
});
dialog?.addEventListener("submit", () => dialog.close());

// --- copy ---

async function copyText(selector) {
  await navigator.clipboard.writeText(document.querySelector(selector).textContent);
  toast(words.copied);
}

/** Buttons that need a script are shown by it. */
function reveal() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy][hidden]")) button.hidden = false;
}
reveal();

// --- a form that must be sent once ---

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-once]")) return;
  const button = event.target.querySelector("button");
  // After the event, so that the button's own name and value are still sent.
  setTimeout(() => {
    button.disabled = true;
  });
});
window.addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("[data-once] button[data-ready]")) button.disabled = false;
});

// --- answers of the server ---

document.body.addEventListener("toast", (event) => toast(event.detail.text, event.detail.tone));
document.body.addEventListener("htmx:sendError", (event) => byHand(event) && toast(words.failed, "failed"));
document.body.addEventListener("htmx:responseError", (event) => byHand(event) && toast(words.failed, "failed"));

/** Parts that ask again by themselves fail in silence: the next try comes soon. */
function byHand(event) {
  return event.detail.requestConfig?.verb !== "get";
}

// --- shortcuts ---

const PLACES = { h: "/", j: "/jobs/" };
let went = 0;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable]")) return;
  if (event.key === "/") {
    event.preventDefault();
    (document.querySelector(".main input[type=search]") ?? document.getElementById("search"))?.focus();
  } else if (event.key === "?") {
    window.htmx?.ajax("GET", "/help/", { target: "#dialog", swap: "innerHTML" });
  } else if (event.key === "g") {
    went = Date.now();
  } else if (PLACES[event.key] && Date.now() - went < 1000) {
    location.assign(PLACES[event.key]);
  } else if (event.key === "n" && document.querySelector('a[href^="/jobs/new"]')) {
    location.assign("/jobs/new");
  }
});

document.querySelector("[data-focus]")?.focus();
