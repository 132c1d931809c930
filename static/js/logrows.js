// The rows of an open log: text nodes only, in blocks, so that what is out of sight costs no layout.

import { partsOf } from "./lib/styled.js";

const BLOCK_ROWS = 100;
const SHOWN_CHARACTERS = 16_384;

export class Rows {
  /**
   * @param {HTMLElement} parent
   * @param {{byPod: boolean, words: object}} options byPod: who a line is from is its pod, not its rank
   */
  constructor(parent, { byPod, words }) {
    this.parent = parent;
    this.byPod = byPod;
    this.words = words;
    /** @type {Map<number, HTMLElement>} */
    this.elements = new Map();
    const { lang, dataset } = document.documentElement;
    const day = { year: "numeric", month: "2-digit", day: "2-digit" };
    const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
    this.clock = new Intl.DateTimeFormat(lang, { ...time, timeZone: dataset.zone });
    this.calendar = new Intl.DateTimeFormat(lang, { ...day, ...time, fractionalSecondDigits: 3, timeZone: dataset.zone });
    this.number = new Intl.NumberFormat(lang);
    this.second = null;
    this.told = "";
    this.model = this.#model();
  }

  append(lines) {
    for (let done = 0; done < lines.length; ) {
      let block = this.parent.lastElementChild;
      if (!block || block.childElementCount >= BLOCK_ROWS) block = this.parent.appendChild(newBlock());
      const part = lines.slice(done, done + BLOCK_ROWS - block.childElementCount);
      block.append(...part.map((line) => this.#row(line)));
      done += part.length;
    }
  }

  prepend(lines) {
    const blocks = [];
    for (let done = 0; done < lines.length; done += BLOCK_ROWS) {
      const block = newBlock();
      block.append(...lines.slice(done, done + BLOCK_ROWS).map((line) => this.#row(line)));
      blocks.push(block);
    }
    this.parent.prepend(...blocks);
  }

  remove(lines) {
    for (const { id } of lines) {
      const element = this.elements.get(id);
      if (!element) continue;
      const block = element.parentElement;
      element.remove();
      if (!block.childElementCount) block.remove();
      this.elements.delete(id);
    }
  }

  clear() {
    this.elements.clear();
    this.parent.replaceChildren();
  }

  of(line) {
    return line ? this.elements.get(line.id) : undefined;
  }

  /** Put the whole of a long line into its row. */
  showAll(line, text) {
    const cell = this.of(line)?.lastElementChild;
    if (cell) fill(cell, text, text === line.text ? line.look?.styles : []);
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

  #row(line) {
    const element = "gap" in line ? this.#gap(line) : this.#line(line);
    element.dataset.id = line.id;
    this.elements.set(line.id, element);
    return element;
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
    return element;
  }

  #gapText({ gap, from }) {
    if (gap === null) return this.words.gap;
    return (from === undefined ? this.words.gapOf : this.words.passed).replace("{n}", this.number.format(gap));
  }
}

function newBlock() {
  const block = document.createElement("div");
  block.className = "log-block";
  return block;
}

function fill(cell, text, styles) {
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
