// Lines on their way into an open log: what the socket brought and nobody has drawn yet.

/** Holds newest lines until they are drawn. More than `cap` are never drawn: the oldest go, and can be read anew. */
export class Incoming {
  constructor(cap = 5000) {
    this.cap = cap;
    this.lines = [];
    this.from = null; // every line from this number on was heard, until `to`
    this.to = null;
    this.skipped = false; // lines were heard that are held no more
  }

  /** @param {object[]} heard in order, unfiltered; @param {(line: object) => boolean} wanted */
  add(heard, wanted) {
    const numbered = heard.filter((line) => "gap" in line || this.to === null || line.n > this.to);
    const first = numbered.find((line) => !("gap" in line));
    if (!first) {
      this.lines.push(...numbered);
      return [];
    }
    if (this.to === null) {
      this.from = first.n;
    } else if (first.n > this.to + 1) {
      this.lines.push({ gap: first.n - this.to - 1, from: this.to + 1 });
      this.from = first.n;
    }
    this.to = numbered.findLast((line) => !("gap" in line)).n;
    const found = numbered.filter(wanted);
    for (const line of found) this.lines.push(line);
    // Twice the cap before cutting, so that not every line moves all of them.
    if (this.lines.length > 2 * this.cap) this.#cut();
    return numbered;
  }

  /** What waits, in its order. */
  take() {
    if (this.lines.length > this.cap) this.#cut();
    const taken = this.lines;
    this.lines = [];
    return taken;
  }

  drop() {
    this.lines = [];
    this.skipped = false;
  }

  #cut() {
    this.lines = this.lines.slice(-this.cap);
    this.from = this.lines.find((line) => !("gap" in line))?.n ?? this.to + 1;
    this.skipped = true;
  }
}
