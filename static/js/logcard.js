// The log card: lines as text nodes only, at most 5,000 of them, following the newest until the reader scrolls away.

import { Lines, readSearch, shown } from "./lib/lines.js";
import { partsOf } from "./lib/styled.js";

const PAGE_LINES = 1000;
const NEAR_END_PX = 24;

export class LogCard {
  /**
   * @param {HTMLElement} card
   * @param {{place: object, keep: (o: object) => void, onPick: (step: number, attempt: number) => void,
   *          onLines: (lines: object[]) => void, restart: (cursor: string|null) => void}} page
   *
   * The card's data-by says who a line is from: its rank, or its pod where there are no ranks.
   */
  constructor(card, page) {
    this.page = page;
    this.url = card.dataset.url;
    this.byPod = card.dataset.by === "pod";
    this.words = JSON.parse(document.getElementById("log-words").textContent);
    this.box = card.querySelector("#log");
    this.empty = card.querySelector("#log-empty");
    this.count = card.querySelector("#log-count");
    this.followButton = card.querySelector("#log-follow");
    this.level = card.querySelector("#log-level");
    this.find = card.querySelector("#log-find");
    this.card = card;
    this.lines = new Lines();
    this.elements = new Map();
    this.before = null;
    this.following = true;
    this.newer = 0;
    this.picked = null;
    this.hit = null;
    this.filter = {
      ranks: new Set((page.place.rank ?? "").split(",").filter(Boolean).map(Number)),
      level: page.place.level ?? "",
    };
    this.search = {};
    this.time = new Intl.DateTimeFormat(document.documentElement.lang, {
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hour12: false,
      timeZone: document.documentElement.dataset.zone,
    });
    this.number = new Intl.NumberFormat(document.documentElement.lang);
    this.more = this.#olderButton();
    this.#listen();
    this.#showChoices();
  }

  /** Read the newest lines; resolves to the cursor after them. */
  async load(limit = PAGE_LINES) {
    const found = await this.#fetch({ limit });
    if (!found) return null;
    this.lines.clear();
    this.before = found.before;
    this.page.onLines(this.lines.append(Lines.of(found.frames)).added);
    this.#drawAll();
    return found.cursor;
  }

  add(frames) {
    if (this.lines.cut) return this.#say(Lines.of(frames).length);
    const { added, gone } = this.lines.append(Lines.of(frames));
    this.page.onLines(added.filter((line) => !("gap" in line)));
    const fragment = document.createDocumentFragment();
    for (const line of added) this.#draw(line, fragment);
    const old = gone ? this.#dropFirst(gone) : 0;
    this.box.append(fragment);
    if (this.following) this.#toEnd();
    else if (old) this.box.scrollTop -= old;
    this.#say(this.following ? 0 : added.length);
    this.#showMore();
  }

  /** Lines are missing here: say so, in the log and by number where it is known. */
  addGap(count) {
    const { added } = this.lines.append([{ gap: count }]);
    this.#draw(added[0], this.box);
  }

  /** Bring the line of a step into view and mark it. */
  showStep(step, attempt = null) {
    const line = this.lines.atStep(step, attempt);
    if (line) this.#pick(line);
  }

  #listen() {
    this.box.addEventListener("scroll", () => {
      const atEnd = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR_END_PX;
      if (atEnd !== this.following && !this.lines.cut) this.#follow(atEnd);
    });
    this.box.addEventListener("click", (event) => this.#clicked(event.target.closest(".log-line")));
    this.followButton.addEventListener("click", () => this.#newest());
    this.level.addEventListener("change", () => this.#choose({ level: this.level.value }));
    // The squares come anew when the gang gets its nodes: the card listens for them, and shows them what is chosen.
    this.card.addEventListener("click", ({ target }) => target.dataset.rank && this.#toggle(Number(target.dataset.rank)));
    document.body.addEventListener("htmx:oobAfterSwap", () => this.#showChoices());
    this.find.addEventListener("input", () => this.#look());
    this.find.addEventListener("keydown", (event) => event.key === "Enter" && this.#next(event.shiftKey ? -1 : 1));
    document.addEventListener("keydown", (event) => {
      if (event.key === "f" && !event.target.closest("input, textarea, select")) this.#newest();
    });
    if (this.page.place.find) {
      this.find.value = this.page.place.find;
    }
  }

  #toggle(rank) {
    const ranks = new Set(this.filter.ranks);
    if (!ranks.delete(rank)) ranks.add(rank);
    this.#choose({ ranks });
  }

  #choose(changes) {
    this.filter = { ...this.filter, ...changes };
    this.page.keep({ rank: [...this.filter.ranks].sort((a, b) => a - b).join(","), level: this.filter.level });
    this.#showChoices();
    this.#drawAll();
  }

  #showChoices() {
    this.level.value = this.filter.level;
    for (const square of this.card.querySelectorAll("[data-rank]")) {
      square.setAttribute("aria-pressed", String(this.filter.ranks.has(Number(square.dataset.rank))));
    }
  }

  // --- drawing ---

  #drawAll() {
    this.elements.clear();
    const fragment = document.createDocumentFragment();
    for (const line of this.lines.all) this.#draw(line, fragment);
    this.box.replaceChildren(this.more, fragment);
    this.#showMore();
    if (this.following) this.#toEnd();
    if (this.find.value) this.#look();
    else this.#say(0);
  }

  #draw(line, parent) {
    if (!shown(line, this.filter)) return;
    const element = "gap" in line ? this.#gap(line) : this.#line(line);
    this.elements.set(line.id, element);
    parent.append(element);
  }

  #line(line) {
    const element = document.createElement("div");
    element.className = `log-line ${line.level}`;
    element.dataset.id = line.id;
    if (line.step !== null) element.classList.add("has-step");
    if (line.id === this.picked) element.classList.add("picked");
    const step = line.step === null ? "" : this.number.format(line.step);
    element.append(
      cell("", this.time.format(line.at)),
      cell("rank", this.byPod ? line.pod.split("-").at(-1) : (line.rank ?? "")),
      cell("level", line.level),
      cell("n", step),
      textCell(line),
    );
    if (!this.byPod && line.rank !== null) element.children[1].prepend(cell("word", `${this.words.rank} `));
    return element;
  }

  #gap({ gap }) {
    const element = document.createElement("div");
    element.className = "log-gap";
    element.textContent = gap === null ? this.words.gap : this.words.gapOf.replace("{n}", this.number.format(gap));
    return element;
  }

  /** Take the elements of lines that went; returns their height. */
  #dropFirst() {
    const first = this.lines.all[0].id;
    const height = this.box.scrollHeight;
    for (const [id, element] of this.elements) {
      if (id >= first && first !== undefined) break;
      element.remove();
      this.elements.delete(id);
    }
    return height - this.box.scrollHeight;
  }

  #toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
  }

  #follow(on) {
    this.following = on;
    if (on) this.newer = 0;
    this.followButton.setAttribute("aria-pressed", String(on));
    this.#say(0);
  }

  #say(more) {
    this.newer = this.following ? 0 : this.newer + more;
    this.empty.hidden = this.lines.all.length > 0;
    if (!this.lines.all.length && !this.empty.isConnected) this.box.append(this.empty);
    if (this.search.test) return;
    this.count.textContent = this.newer ? this.words.newer.replace("{n}", this.number.format(this.newer)) : "";
  }

  // --- older and newer lines ---

  #olderButton() {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "log-more";
    button.textContent = this.words.older;
    button.addEventListener("click", () => this.#older());
    return button;
  }

  #showMore() {
    if (!this.more.isConnected) this.box.prepend(this.more);
    this.more.hidden = !this.before && !this.lines.trimmed;
  }

  async #older() {
    this.#follow(false);
    this.more.disabled = true;
    if (this.lines.trimmed) {
      // The place before what is left is not known: read as much as fits, and go on from there.
      const cursor = await this.load(this.lines.cap);
      if (cursor) this.page.restart(cursor);
    } else {
      const found = await this.#fetch({ before: this.before, limit: PAGE_LINES });
      if (found) {
        const height = this.box.scrollHeight;
        this.before = found.before;
        this.page.onLines(this.lines.prepend(Lines.of(found.frames)).added);
        this.#drawAll();
        this.box.scrollTop = this.box.scrollHeight - height;
      }
    }
    this.more.disabled = false;
  }

  async #newest() {
    if (this.lines.cut) {
      const cursor = await this.load();
      this.page.restart(cursor);
    }
    this.#follow(true);
    this.#toEnd();
  }

  async #fetch(parameters) {
    try {
      const answer = await fetch(`${this.url}?${new URLSearchParams(parameters)}`, { headers: { Accept: "application/json" } });
      return answer.ok ? await answer.json() : null;
    } catch {
      return null; // the socket brings the last lines as soon as it is back
    }
  }

  // --- picking and finding ---

  #clicked(element) {
    if (!element || !getSelection().isCollapsed) return;
    const line = this.lines.all.find(({ id }) => id === Number(element.dataset.id));
    if (!line || line.step === null) return;
    this.#pick(line, false);
    this.page.onPick(line.step, line.attempt);
  }

  #pick(line, scroll = true) {
    this.elements.get(this.picked)?.classList.remove("picked");
    this.picked = line.id;
    const element = this.elements.get(line.id);
    element?.classList.add("picked");
    if (scroll && element) this.#bring(element);
  }

  #bring(element) {
    this.#follow(false);
    const middle = element.offsetTop - this.box.offsetTop - this.box.clientHeight / 2;
    this.box.scrollTop = middle + (this.box.offsetParent === element.offsetParent ? 0 : this.box.offsetTop);
  }

  #look() {
    this.search = readSearch(this.find.value);
    this.page.keep({ find: this.find.value });
    this.find.setAttribute("aria-invalid", String(Boolean(this.search.fault)));
    for (const element of this.box.querySelectorAll(".hit")) element.classList.remove("hit");
    if (this.search.step !== undefined) this.showStep(this.search.step);
    if (!this.search.test) {
      this.count.textContent = this.search.fault ? this.words.fault : "";
      return;
    }
    const hits = this.#hits();
    for (const line of hits) this.elements.get(line.id)?.classList.add("hit");
    this.count.textContent = this.words.found.replace("{n}", this.number.format(hits.length));
  }

  #hits() {
    return this.lines.all.filter((line) => !("gap" in line) && this.elements.has(line.id) && this.search.test?.(line.text));
  }

  /** Go to the next hit (or the one before), round the end. */
  #next(direction) {
    const hits = this.#hits();
    if (!hits.length) return;
    const here = hits.findIndex(({ id }) => id === this.hit);
    const line = hits[(here + direction + hits.length) % hits.length];
    this.hit = line.id;
    this.#pick(line);
  }
}

function cell(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  return element;
}

function textCell({ text, look }) {
  const element = cell("text", "");
  for (const part of partsOf(text, look?.styles)) element.append(part.names ? cell(part.names, part.text) : part.text);
  return element;
}
