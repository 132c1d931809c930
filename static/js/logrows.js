// The rows of an open log, in blocks. What is out of sight costs no layout, and while lines come faster than anybody
// reads not even a row: a block waits with the height of its lines, and gets them when it is looked at, or in a quiet
// moment. Most lines of a flood are gone before.

import { fill, RowMaker } from "./logrow.js";

const BLOCK_LINES = 100;
const LINE_PX = 20;
const QUIET_MS = 200;
const BUILDING_MS = 6;

/** Lines that follow each other. */
class Block {
  constructor(built) {
    this.lines = [];
    this.built = built;
    this.element = document.createElement("div");
    this.element.className = built ? "log-block" : "log-block waiting";
  }

  /** Say how high it is as long as nobody has seen it. */
  measure() {
    const height = `${this.lines.length * LINE_PX}px`;
    if (this.built) this.element.style.containIntrinsicBlockSize = `auto ${height}`;
    this.element.style.height = this.built ? "" : height;
  }
}

export class Rows {
  /**
   * @param {HTMLElement} parent
   * @param {{byPod: boolean, words: object, isFound: (line: object) => boolean, inPlace: (change: () => void) => void}} options
   *   `isFound` says which rows are marked; `inPlace` makes a change above what is being read
   */
  constructor(parent, { isFound, inPlace, ...options }) {
    this.parent = parent;
    this.maker = new RowMaker(options);
    this.isFound = isFound;
    this.inPlace = inPlace;
    this.appended = 0;
    this.#forget();
  }

  get number() {
    return this.maker.number;
  }

  /** Add newer lines; rows are made at once for the last `now` of them. */
  append(lines, now) {
    const later = Math.max(0, lines.length - now);
    this.#add(lines.slice(0, later), false);
    this.#add(lines.slice(later), true);
    this.appended = performance.now();
    this.#plan();
  }

  prepend(lines) {
    for (let end = lines.length; end > 0; end -= BLOCK_LINES) {
      const block = new Block(false);
      this.blocks.unshift(block);
      this.parent.prepend(block.element);
      this.#put(block, lines.slice(Math.max(0, end - BLOCK_LINES), end));
    }
    this.#plan();
  }

  remove(lines) {
    const changed = new Set();
    for (const { id } of lines) {
      const block = this.blockOf.get(id);
      if (!block) continue;
      this.blockOf.delete(id);
      this.elements.get(id)?.remove();
      this.elements.delete(id);
      block.lines.splice(block.lines.findIndex((line) => line.id === id), 1);
      changed.add(block);
    }
    for (const block of changed) {
      if (block.lines.length) block.measure();
      else block.element.remove();
    }
    if (changed.size) this.blocks = this.blocks.filter((block) => block.lines.length);
  }

  clear() {
    this.#forget();
    this.parent.replaceChildren();
  }

  /** The row of a line, made now if it was not yet. */
  of(line) {
    const block = line && this.blockOf.get(line.id);
    if (block && !block.built) this.inPlace(() => this.#build(block));
    return line ? this.elements.get(line.id) : undefined;
  }

  /** Make the rows that lie between two heights of the window, as far as none are there. */
  show(top, bottom) {
    for (const block of this.blocks) {
      if (block.built) continue;
      const place = block.element.getBoundingClientRect();
      if (place.top >= bottom) return;
      if (place.bottom > top) this.inPlace(() => this.#build(block));
    }
  }

  /** The first row that reaches below a height of the window. */
  first(top) {
    const reaches = (element) => element.getBoundingClientRect().bottom > top;
    const block = this.blocks.find(({ built, element }) => built && reaches(element));
    return block && [...block.element.children].find(reaches);
  }

  /** Mark the found ones among the rows of some lines; how many of the lines are found. */
  mark(lines) {
    let count = 0;
    for (const line of lines) {
      if (!this.isFound(line)) continue;
      count += 1;
      this.elements.get(line.id)?.classList.add("hit");
    }
    return count;
  }

  /** Put the whole of a long line into its row. */
  showAll(line, text) {
    const cell = this.of(line)?.lastElementChild;
    if (cell) fill(cell, text, text === line.text ? line.look?.styles : []);
  }

  /** A line as it is copied. */
  textOf(line) {
    return this.maker.textOf(line);
  }

  #forget() {
    /** @type {Block[]} */
    this.blocks = [];
    /** @type {Map<number, Block>} */
    this.blockOf = new Map();
    /** @type {Map<number, HTMLElement>} */
    this.elements = new Map();
  }

  #add(lines, built) {
    for (let done = 0; done < lines.length; ) {
      let block = this.blocks.at(-1);
      if (block?.built !== built || block.lines.length >= BLOCK_LINES) {
        block = new Block(built);
        this.blocks.push(block);
        this.parent.append(block.element);
      }
      const part = lines.slice(done, done + BLOCK_LINES - block.lines.length);
      this.#put(block, part);
      done += part.length;
    }
  }

  #put(block, lines) {
    for (const line of lines) {
      block.lines.push(line);
      this.blockOf.set(line.id, block);
    }
    if (block.built) this.#fill(block, lines);
    block.measure();
  }

  #fill(block, lines) {
    const rows = lines.map((line) => {
      const row = this.maker.of(line);
      this.elements.set(line.id, row);
      return row;
    });
    this.mark(lines);
    block.element.append(...rows);
  }

  #build(block) {
    block.built = true;
    block.element.classList.remove("waiting");
    this.#fill(block, block.lines);
    block.measure();
  }

  /** Make what waits, the newest first, some at a time, once no lines come. */
  #plan() {
    if (this.planned || this.blocks.every(({ built }) => built)) return;
    this.planned = setTimeout(
      () => {
        this.planned = 0;
        if (performance.now() - this.appended >= QUIET_MS) this.inPlace(() => this.#buildSome());
        this.#plan();
      },
      Math.max(0, this.appended + QUIET_MS - performance.now()),
    );
  }

  #buildSome() {
    const until = performance.now() + BUILDING_MS;
    for (const block of this.blocks.toReversed()) {
      if (block.built) continue;
      this.#build(block);
      if (performance.now() > until) return;
    }
  }
}
