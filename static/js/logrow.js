// One row of an open log: text nodes only.

import { partsOf } from "./lib/styled.js";

const SHOWN_CHARACTERS = 16_384;

export class RowMaker {
  /**
   * @param {{byPod: boolean, words: object, elsewhere?: string}} options byPod: who a line is from is its pod, not its
   *   rank; elsewhere: the address where missing lines can be looked for
   */
  constructor({ byPod, words, elsewhere }) {
    this.byPod = byPod;
    this.words = words;
    this.elsewhere = elsewhere;
    const { lang, dataset } = document.documentElement;
    const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
    this.clock = new Intl.DateTimeFormat(lang, { ...time, timeZone: dataset.zone });
    this.number = new Intl.NumberFormat(lang);
    this.second = null;
    this.told = "";
    this.model = this.#model();
  }

  of(line) {
    const element = "gap" in line ? this.#gap(line) : this.#line(line);
    element.dataset.id = line.id;
    return element;
  }

  timeOf(line) {
    const second = Math.floor(line.at / 1000);
    if (second !== this.second) {
      this.second = second;
      this.told = this.clock.format(line.at);
    }
    return this.told;
  }

  whoOf(line) {
    return this.byPod ? line.pod.split("-").at(-1) : (line.rank ?? "");
  }

  /** A line as it is copied. */
  textOf(line) {
    if ("gap" in line) return this.#gapText(line);
    const who = this.byPod || line.rank === null ? this.whoOf(line) : `${this.words.rank} ${line.rank}`;
    return [this.timeOf(line), who, line.level, line.step ?? "", line.text].filter((part) => part !== "").join(" ");
  }

  #model() {
    const row = document.createElement("div");
    for (const name of ["time", "rank", "level", "n", "text"]) {
      const cell = row.appendChild(document.createElement("span"));
      cell.className = name;
      if (name === "rank" && !this.byPod) {
        const word = cell.appendChild(document.createElement("span"));
        word.className = "word";
        word.textContent = `${this.words.rank} `;
      }
      if (name !== "text") cell.append("\u200b");
    }
    return row;
  }

  #line(line) {
    const row = this.model.cloneNode(true);
    row.className = `log-line ${line.level}`;
    if (line.step !== null) row.classList.add("has-step");
    const [time, rank, level, step, text] = row.children;
    time.lastChild.data = this.timeOf(line);
    if (line.rank === null && !this.byPod) rank.replaceChildren();
    else rank.lastChild.data = this.whoOf(line);
    level.lastChild.data = line.level;
    step.lastChild.data = line.step === null ? "" : this.number.format(line.step);
    fill(text, line.text.slice(0, SHOWN_CHARACTERS), line.look?.styles);
    const cut = line.look?.cut ?? (line.text.length > SHOWN_CHARACTERS ? line.text.length : 0);
    if (cut) text.append(this.#cutMark(cut));
    return row;
  }

  #cutMark(size) {
    const mark = document.createElement("button");
    mark.type = "button";
    mark.className = "log-cut";
    mark.textContent = this.words.showAll.replace("{n}", this.number.format(size));
    return mark;
  }

  #gap(line) {
    const element = document.createElement("div");
    element.className = "log-gap";
    element.textContent = this.#gapText(line);
    if (line.from !== undefined) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "log-gap-show";
      button.textContent = this.words.showThem;
      element.append(" ", button);
    }
    if (line.between && this.elsewhere) element.append(" ", this.#elsewhere(line.between));
    return element;
  }

  #elsewhere(between) {
    const link = document.createElement("a");
    link.href = `${this.elsewhere}?${spanOf(between)}`;
    link.textContent = this.words.elsewhere;
    return link;
  }

  #gapText({ gap, from }) {
    if (gap === null) return this.words.gap;
    return (from === undefined ? this.words.gapOf : this.words.passed).replace("{n}", this.number.format(gap));
  }
}

/** The question for the lines of a gap: whole milliseconds around it, for its edges are lines that are known. */
export function spanOf({ start, end, rank }) {
  const since = new Date(Math.floor(start / 1e6)).toISOString();
  const asked = { since, until: new Date(Math.ceil(end / 1e6)).toISOString() };
  return new URLSearchParams(rank === null || rank === undefined ? asked : { ...asked, rank });
}

/** Put a line's text into its cell. */
export function fill(cell, text, styles) {
  const parts = partsOf(text, styles ?? []);
  if (parts.length === 1 && !parts[0].names) {
    cell.textContent = text;
    return;
  }
  cell.replaceChildren(
    ...parts.map((part) => {
      if (!part.names) return part.text;
      const span = document.createElement("span");
      span.className = part.names;
      span.textContent = part.text;
      return span;
    }),
  );
}
