// Short messages at the edge of the page, and the words our scripts use, handed over by the page.

export const words = JSON.parse(document.getElementById("words")?.textContent ?? "{}");

const SHOWN_MS = 6000;

/** Show a message; one that `stays` has to be closed by hand. */
export function toast(text, tone = "done", stays = false) {
  const line = document.createElement("div");
  line.className = `toast-line toast-${tone}`;
  const body = document.createElement("span");
  body.className = "grow";
  body.textContent = text;
  line.append(body);
  document.getElementById("toasts")?.append(line);
  arm(line, stays);
}

function arm(line, stays) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "×";
  button.setAttribute("aria-label", words.close);
  button.addEventListener("click", () => line.remove());
  line.append(button);
  if (!stays) setTimeout(() => line.remove(), SHOWN_MS);
}

for (const line of document.querySelectorAll(".toast-line")) arm(line, false);
