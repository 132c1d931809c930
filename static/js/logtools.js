// What can be done with the lines of a log: wrapped, walked through by keyboard, copied, linked to, downloaded.

import { addressOf, placeIn } from "./lib/place.js";
import { toast, words as shared } from "./toast.js";

const WRAP = "log-wrap";

export class LogTools {
  constructor(log) {
    this.log = log;
    const { card, box } = log;
    this.wrap = card.querySelector("#log-wrap");
    this.said = card.querySelector("#log-said");
    this.picked = card.querySelector("#log-picked").content.firstElementChild.cloneNode(true);
    this.#setWrap(localStorage.getItem(WRAP) !== "no");
    this.wrap.addEventListener("click", () => this.#setWrap(this.wrap.getAttribute("aria-pressed") !== "true"));
    box.addEventListener("keydown", (event) => this.#pressed(event));
    box.addEventListener("copy", (event) => this.#copied(event));
    card.querySelector("#log-copy").addEventListener("click", () => this.#copy(log.lines.all));
    for (const link of card.querySelectorAll("[data-download]")) {
      link.addEventListener("click", (event) => this.#aim(link, event));
    }
    this.picked.addEventListener("click", ({ target }) => this.#act(target.closest("[data-act]")?.dataset.act));
  }

  /** Show what can be done with a picked line, in its row, and tell those who hear the page. */
  showTools(line) {
    const { log } = this;
    const row = log.rows.of(line);
    if (!row) return;
    this.picked.querySelector("[data-number]").textContent = log.words.line.replace("{n}", log.rows.number.format(line.n));
    const inChart = this.picked.querySelector("[data-act=chart]");
    inChart.hidden = line.step === null || !document.getElementById("chart");
    row.lastElementChild.before(this.picked);
    this.said.textContent = `${log.words.line.replace("{n}", log.rows.number.format(line.n))}: ${log.rows.textOf(line)}`;
  }

  hideTools() {
    this.picked.remove();
  }

  #setWrap(on) {
    this.wrap.setAttribute("aria-pressed", String(on));
    this.log.box.classList.toggle("unwrapped", !on);
    localStorage.setItem(WRAP, on ? "yes" : "no");
  }

  // --- keyboard: only while the log itself has the focus ---

  #pressed(event) {
    if (event.target !== this.log.box || event.ctrlKey || event.metaKey || event.altKey) return;
    const { log } = this;
    const acts = {
      ArrowDown: () => this.#step(1),
      ArrowUp: () => this.#step(-1),
      End: () => log.newest(),
      Home: () => log.goTo({ line: 1 }),
      Enter: () => this.#act("chart"),
      Escape: () => log.unpick(),
      c: () => this.#act("copy"),
      l: () => this.#act("link"),
      f: () => (log.following ? log.pause() : log.newest()),
      w: () => this.wrap.click(),
      n: () => log.find.next(-1),
      N: () => log.find.next(1),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** Pick the line below or above; the first time one in sight. */
  #step(direction) {
    const { log } = this;
    const all = log.lines.all.filter((line) => "n" in line);
    const here = log.picked ? all.findIndex(({ id }) => id === log.picked.id) : -1;
    const start = direction > 0 ? all.indexOf(log.firstInSight()) : all.length - 1;
    const next = here < 0 ? all[start] : all[here + direction];
    if (!next) return direction < 0 ? log.older() : log.more();
    log.pause();
    log.pick(next, { scroll: false });
    log.rows.of(next)?.scrollIntoView({ block: "nearest" });
  }

  #act(act) {
    const line = this.log.picked;
    if (!line || !act) return;
    if (act === "chart" && line.step !== null) this.log.page.onPick(line.step, line.attempt);
    if (act === "copy") this.#copy([line]);
    if (act === "link") this.#write(this.#linkTo(line));
  }

  /** Shows the line among all others of the chosen span. */
  #linkTo({ n }) {
    const { since, until } = placeIn(location);
    return `${location.origin}${addressOf({ pathname: location.pathname, search: "", hash: "#log" }, { line: n, since, until })}`;
  }

  // --- copies ---

  #copied(event) {
    const selection = getSelection();
    const { box, lines, rows } = this.log;
    const chosen = [...box.querySelectorAll(".log-line, .log-gap")].filter((row) => selection.containsNode(row, true));
    if (chosen.length < 2) return; // part of one line is copied as it is
    // Between the two ends, not the rows: some may wait to be made.
    const [from, to] = [chosen[0], chosen.at(-1)].map((row) => lines.all.indexOf(this.log.lineOf(row)));
    const texts = lines.all.slice(from, to + 1).map((line) => rows.textOf(line));
    event.clipboardData.setData("text/plain", `${texts.join("\n")}\n`);
    event.preventDefault();
  }

  #copy(lines) {
    this.#write(lines.map((line) => this.log.rows.textOf(line)).join("\n"));
  }

  async #write(text) {
    try {
      await navigator.clipboard.writeText(text);
      toast(shared.copied);
    } catch {
      toast(this.log.words.notCopied, "failed");
    }
  }

  /** Ask for what is chosen now; of a span that is typed and not shown yet, for that. */
  #aim(link, event) {
    if (link.closest("form") && !this.log.span.take()) return event.preventDefault();
    const query = link.dataset.download === "chosen" ? new URLSearchParams(this.log.filters()).toString() : "";
    link.href = query ? `${link.dataset.url}?${query}` : link.dataset.url;
  }
}
