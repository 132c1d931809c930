// The lines of a log that a page keeps: at most `cap`, in their order, each once. A line's number is its place in the
// whole log, counted from 1.

const LEVELS = ["DEBUG", "INFO", "WARN", "ERROR"];

/** @typedef {{id: number, n: number, at: number, level: string, rank: number|null, pod: string, attempt: number,
 *   step: number|null, text: string, look: {styles?: [number, number, string][], over?: boolean}|null}
 *   | {id: number, gap: number|null, from?: number, between?: {start: number, end: number, rank: number|null}}} Line
 *   `at` in milliseconds; `gap` counts missing lines, null where nobody knows; `from` is the number of the first of
 *   them that can still be read; `between` says when (ns) and of which rank they were */

export class Lines {
  constructor(cap = 5000) {
    this.cap = cap;
    /** @type {Line[]} */
    this.all = [];
    this.serial = 0;
  }

  /** Lines of frames as the socket and REST send them. */
  static of(frames) {
    const found = [];
    for (const { src, lines, gap, missing, n, ns } of frames) {
      if (missing) found.push({ gap: missing });
      else if (gap) found.push({ gap: null, between: { ...gap, rank: src.rank } });
      for (const [index, [at, level, rank, step, text, look]] of lines.entries()) {
        found.push({
          id: -1,
          n: ns ? ns[index] : n + index,
          at: at / 1e6,
          level,
          rank: rank ?? src.rank,
          pod: src.pod,
          attempt: src.attempt,
          step,
          text,
          look: look ?? null,
        });
      }
    }
    return found;
  }

  get first() {
    return this.all.find(isLine)?.n ?? null;
  }

  get last() {
    return this.all.findLast(isLine)?.n ?? null;
  }

  /** When the newest line was written, in milliseconds. */
  get lastAt() {
    return this.all.findLast(isLine)?.at ?? null;
  }

  /** Add newer lines; returns those added, and those that went: the oldest beyond the cap, and what was drawn over. */
  append(lines) {
    const gone = [];
    const added = [];
    for (const line of this.#named(lines)) {
      if (line.look?.over) gone.push(...this.#takeDrawn(line));
      this.all.push(line);
      added.push(line);
    }
    const over = this.all.length - this.cap;
    if (over > 0) gone.push(...this.all.splice(0, over));
    const lost = new Set(gone.map(({ id }) => id));
    return { added: lost.size ? added.filter(({ id }) => !lost.has(id)) : added, gone };
  }

  /** Add older lines in front; returns those added and the newest that had to go. */
  prepend(lines) {
    const added = this.#named(lines);
    this.all.unshift(...added);
    return { added, gone: this.all.length > this.cap ? this.all.splice(this.cap) : [] };
  }

  clear() {
    this.all = [];
  }

  byId(id) {
    return this.all.find((line) => line.id === id);
  }

  byNumber(n) {
    return this.all.find((line) => line.n === n);
  }

  /** The line that speaks of a step: the first at it or after it, of an attempt where one is named. */
  atStep(step, attempt = null) {
    let best = null;
    for (const line of this.all) {
      if (line.step === null || line.step === undefined || line.step < step) continue;
      if (attempt !== null && line.attempt !== attempt) continue;
      if (best === null || line.step < best.step) best = line;
    }
    return best;
  }

  #named(lines) {
    for (const line of lines) line.id = this.serial++;
    return [...lines];
  }

  /** Take out the newest line of the same source: this one draws over it. */
  #takeDrawn({ pod, attempt }) {
    const index = this.all.findLastIndex((line) => line.pod === pod && line.attempt === attempt);
    return index < 0 ? [] : this.all.splice(index, 1);
  }
}

const isLine = (line) => !("gap" in line);

/**
 * Whether a line is shown. `ranks` empty means all; `level` "" means every; `since` and `until` (not in it) are
 * milliseconds, null for none; `test` tries the text. Gaps always are.
 */
export function shown(line, { ranks, level, since, until, test }) {
  if ("gap" in line) return true;
  if ((since ?? null) !== null && line.at < since) return false;
  if ((until ?? null) !== null && line.at >= until) return false;
  if (ranks.size && line.rank !== null && !ranks.has(line.rank)) return false;
  if (level && LEVELS.indexOf(line.level || "INFO") < LEVELS.indexOf(level)) return false;
  return !test || test(line.text);
}

/** The step of a line that says a checkpoint was saved, else null. */
export function savedStep(line) {
  return line.step !== null && /checkpoint saved/i.test(line.text ?? "") ? line.step : null;
}
