// Looking for something in a log: among the lines that are loaded at once, and on through all that is kept.

import { readSearch } from "./lib/finding.js";

const TYPING_MS = 250;
const MARKED_AT_ONCE = 500;

export class LogFind {
  constructor(log) {
    this.log = log;
    const { card, page } = log;
    this.field = card.querySelector("#log-find");
    this.regex = card.querySelector("#log-regex");
    this.only = card.querySelector("#log-only");
    this.steps = card.querySelector("#log-steps");
    this.status = card.querySelector("#log-count");
    this.goOn = card.querySelector("#log-go-on");
    this.zone = document.documentElement.dataset.zone;
    this.search = {};
    this.marking = 0;
    this.field.value = page.place.find ?? "";
    press(this.regex, page.place.regex === "1");
    press(this.only, page.place.only === "1");
    this.#read();
    this.#listen();
  }

  /** How a line's text is tried where only lines found are shown. */
  get test() {
    return this.#isFilter ? this.search.test : undefined;
  }

  filters() {
    return this.#isFilter ? this.#asked() : [];
  }

  /** Whether a line is marked among the others. */
  isFound(line) {
    return Boolean(this.search.q) && !this.#isFilter && !("gap" in line) && this.search.test(line.text);
  }

  /** How far the server looked for lines of the filter. */
  told(searched) {
    this.#offer(null);
    if (!searched || !this.search.q) return;
    const found = this.log.lines.all.filter((line) => "n" in line).length;
    if (searched.complete) this.say(this.log.words.foundAll.replace("{n}", this.log.rows.number.format(found)));
    else this.#offer(searched.from, () => this.log.older());
  }

  say(text) {
    this.status.textContent = text;
  }

  /** What is wrong with what was asked for; "" for nothing. */
  fault(text) {
    this.field.setAttribute("aria-invalid", String(Boolean(text)));
    if (text) this.say(text);
    else if (this.faulty) this.say("");
    this.faulty = Boolean(text);
  }

  /** Offer to ask again what had no answer. */
  retry(going) {
    this.going = going;
    this.goOn.hidden = false;
    this.goOn.textContent = this.log.words.again;
  }

  /** To the next line found: towards older ones (-1) or newer ones (1), beyond what is loaded too. */
  async next(direction) {
    if (!this.search.q) return;
    const { lines, picked } = this.log;
    const here = picked?.n ?? (direction < 0 ? Number.POSITIVE_INFINITY : 0);
    const hits = lines.all.filter((line) => "n" in line && this.search.test(line.text));
    const hit = direction < 0 ? hits.findLast(({ n }) => n < here) : hits.find(({ n }) => n > here);
    if (hit) return this.log.pick(hit);
    if (direction < 0) await this.#beyond("before", Math.min(lines.first ?? Number.POSITIVE_INFINITY, here));
    else await this.#beyond("after", Math.max(lines.last ?? 0, here));
  }

  get #isFilter() {
    return Boolean(this.search.q) && this.only.getAttribute("aria-pressed") === "true";
  }

  #asked() {
    return this.search.regex ? [["q", this.search.q], ["regex", "1"]] : [["q", this.search.q]];
  }

  #listen() {
    let typing = 0;
    this.field.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => this.#look(), TYPING_MS);
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      clearTimeout(typing);
      if (this.field.value !== this.seen) this.#look();
      if (this.search.jump) this.log.goTo({ [this.search.jump]: this.search.value });
      else this.next(event.shiftKey ? 1 : -1);
    });
    for (const button of [this.regex, this.only]) {
      button.addEventListener("click", () => {
        press(button, button.getAttribute("aria-pressed") !== "true");
        this.#look();
      });
    }
    this.steps.addEventListener("click", ({ target }) => {
      const step = target.closest("[data-direction]");
      if (step) this.next(Number(step.dataset.direction));
    });
    this.goOn.addEventListener("click", () => this.going?.());
  }

  #read() {
    const near = this.log.lines.lastAt ?? undefined;
    const regex = this.regex.getAttribute("aria-pressed") === "true";
    this.seen = this.field.value;
    this.search = readSearch(this.field.value, { regex, near, zone: this.zone });
  }

  #look() {
    const filtered = this.#isFilter;
    this.#read();
    this.log.page.keep({
      find: this.field.value.trim(),
      regex: this.regex.getAttribute("aria-pressed") === "true" ? 1 : "",
      only: this.only.getAttribute("aria-pressed") === "true" ? 1 : "",
    });
    this.#offer(null);
    const { words } = this.log;
    this.fault(this.search.fault ? (this.search.fault === "pattern" ? words.badPattern : words.fault) : "");
    for (const row of this.log.box.querySelectorAll(".hit")) row.classList.remove("hit");
    if (filtered || this.#isFilter) this.log.reload();
    else this.#markAll();
  }

  /** Mark what is found among the loaded lines, some at a time. */
  #markAll() {
    this.steps.hidden = !this.search.q;
    if (!this.search.fault) this.say("");
    if (!this.search.q) return;
    const mine = ++this.marking;
    const all = [...this.log.lines.all];
    const from = (start, count) => {
      if (mine !== this.marking) return;
      const found = count + this.log.rows.mark(all.slice(start, start + MARKED_AT_ONCE));
      if (start + MARKED_AT_ONCE < all.length) setTimeout(() => from(start + MARKED_AT_ONCE, found));
      else this.say(this.#found(found));
    };
    from(0, 0);
  }

  /** Ask the server for the nearest line found before or after those that are loaded. */
  async #beyond(side, number) {
    const { words } = this.log;
    if (!Number.isFinite(number)) return;
    const parameters = Object.fromEntries(this.#asked());
    this.say(words.searching);
    const answer = await this.log.ask({ ...parameters, [side]: number, limit: 1 });
    if (!answer) return;
    const found = side === "before" ? answer.last : answer.first;
    if (found) {
      this.say("");
      await this.log.goTo({ line: found });
    } else if (answer.searched?.complete === false) {
      const reached = side === "before" ? answer.searched.from : answer.searched.to;
      this.#offer(reached, () => this.#beyond(side, reached));
    } else {
      this.say(words.noMore);
    }
  }

  /** Say how far was searched, and offer to go on; null takes the offer back. */
  #offer(line, going = null) {
    this.going = going;
    this.goOn.hidden = line === null;
    this.goOn.textContent = this.log.words.searchOn;
    if (line !== null) this.say(this.log.words.searched.replace("{n}", this.log.rows.number.format(line)));
  }

  #found(count) {
    return this.log.words.found.replace("{n}", this.log.rows.number.format(count));
  }
}

function press(button, on) {
  button.setAttribute("aria-pressed", String(on));
}
