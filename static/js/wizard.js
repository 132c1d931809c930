// A step of the wizard saves itself while one types. The buttons wait for a save that is under way, so that a tab never
// clashes with itself.

const form = document.querySelector("[data-wizard]");
const QUIET_MS = 900;

if (form) {
  const saved = () => document.getElementById("saved-at");
  let timer = 0;
  let saving = false;
  let leaving = false;
  let dirty = false;
  let button = null;

  const save = () => {
    if (saving || leaving || !dirty) return;
    dirty = false;
    window.htmx.trigger(form, "save");
  };

  form.addEventListener("input", () => {
    dirty = true;
    saved().dataset.dirty = "";
    clearTimeout(timer);
    timer = setTimeout(save, QUIET_MS);
  });

  form.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target === form) saving = true;
  });
  form.addEventListener("htmx:afterRequest", (event) => {
    if (event.target !== form) return;
    saving = false;
    // After a clash this tab stops saving by itself: the next button shows both versions.
    if (event.detail.xhr.status === 409) leaving = true;
    else if (!event.detail.successful) dirty = true;
    if (button) form.requestSubmit(button);
    else if (dirty) timer = setTimeout(save, 5 * QUIET_MS);
  });

  form.addEventListener("submit", (event) => {
    clearTimeout(timer);
    if (saving) {
      event.preventDefault();
      button = event.submitter;
      return;
    }
    leaving = true;
  });

  // Whoever leaves by a link, or closes the tab, within the quiet time loses nothing either.
  window.addEventListener("pagehide", () => {
    if (!dirty || leaving || saving) return;
    const last = new FormData(form);
    last.set("go", "save");
    navigator.sendBeacon(location.pathname, last);
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) leaving = false;
  });
}
