// The menu of jobs whose curves can stand beside: the newest that the reader may see, by name, or any by its id.

const MOST = 8;

/** @param {HTMLDetailsElement} menu @param {string} url of the list @param {(job: {id: string, name: string}) => void} onChoice */
export function offerJobs(menu, url, onChoice) {
  const find = menu.querySelector("input");
  const list = menu.querySelector("ul");
  let known = [];
  const show = () => {
    const typed = find.value.trim();
    const part = typed.toLowerCase();
    const fits = known.filter(({ id, name }) => id === typed || name.toLowerCase().includes(part)).slice(0, MOST);
    if (!fits.length && /^[0-9A-Z]{26}$/.test(typed)) fits.push({ id: typed, name: typed });
    list.replaceChildren(...fits.map((job) => entry(job, menu, onChoice)));
    menu.querySelector("p").hidden = fits.length > 0;
  };
  menu.addEventListener("toggle", async () => {
    if (!menu.open) return;
    find.focus();
    const answer = await fetch(`${url}?limit=200`, { headers: { Accept: "application/json" } }).catch(() => null);
    known = answer?.ok ? (await answer.json()).results : [];
    show();
  });
  find.addEventListener("input", show);
}

function entry(job, menu, onChoice) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "menu-item";
  button.textContent = job.name;
  button.addEventListener("click", () => {
    menu.open = false;
    onChoice({ id: job.id, name: job.name });
  });
  const item = document.createElement("li");
  item.append(button);
  return item;
}
