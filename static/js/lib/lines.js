// The lines of a merged log that a page keeps: at most `cap`, in the order they were written to the buffer.

const LEVELS = ["DEBUG", "INFO", "WARN", "ERROR"];

/** @typedef {{id: number, at: number, level: string, rank: number|null, pod: string, attempt: number, step: number|null,
 *   text: string, look: {styles?: [number, number, string][], over?: boolean}|null}
 *   | {id: number, gap: number|null}} Line  `at` in milliseconds; `gap` counts missing lines, null where nobody knows */

export class Lines {
  constructor(cap = 5000) {
    this.cap = cap;
    /** @type {Line[]} */
    this.all = [];
    this.serial = 0;
    this.trimmed = false; // older lines than these were here and had to go
    this.cut = false; // newer ones
  }

  /** Lines of frames as the socket and REST send them. */
  static of(frames) {
    const found = [];
    for (const { src, lines, gap } of frames) {
      if (gap) found.push({ gap: null });
      for (const [ns, level, rank, step, text, look] of lines) {
        const from = { rank: rank ?? src.rank, pod: src.pod, attempt: src.attempt };
        found.push({ at: ns / 1e6, level, ...from, step, text, look: look ?? null });
      }
    }
    return found;
  }

  /** Add newer lines; returns those added and how many of the oldest went. */
  append(lines) {
    const added = this.#named(lines);
    this.all.push(...added);
    const gone = Math.max(0, this.all.length - this.cap);
    if (gone) {
      this.all.splice(0, gone);
      this.trimmed = true;
    }
    return { added: added.slice(-this.cap), gone };
  }

  /** Add older lines in front; returns those added and how many of the newest went. */
  prepend(lines) {
    const added = this.#named(lines);
    this.all.unshift(...added);
    const gone = Math.max(0, this.all.length - this.cap);
    if (gone) {
      this.all.splice(-gone, gone);
      this.cut = true;
    }
    return { added, gone };
  }

  clear() {
    this.all = [];
    this.trimmed = false;
    this.cut = false;
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
    return lines.map((line) => ({ ...line, id: this.serial++ }));
  }
}

/** Whether a line is shown. `ranks` empty means all; `level` "" means every. Gaps always are. */
export function shown(line, { ranks, level }) {
  if ("gap" in line) return true;
  if (ranks.size && line.rank !== null && !ranks.has(line.rank)) return false;
  return !level || LEVELS.indexOf(line.level || "INFO") >= LEVELS.indexOf(level);
}

/** What was typed into the search field: a step, a test for lines, nothing, or a fault. */
export function readSearch(text) {
  const wanted = text.trim();
  if (!wanted) return {};
  const step = /^step:\s*(\d{1,15})$/i.exec(wanted);
  if (step) return { step: Number(step[1]) };
  const regex = /^\/(.+)\/(i?)$/.exec(wanted);
  if (regex) {
    try {
      const pattern = new RegExp(regex[1], regex[2]);
      return { test: (line) => pattern.test(line) };
    } catch {
      return { fault: true };
    }
  }
  const lower = wanted.toLowerCase();
  return { test: (line) => line.toLowerCase().includes(lower) };
}

/** The step of a line that says a checkpoint was saved, else null. */
export function savedStep(line) {
  return line.step !== null && /checkpoint saved/i.test(line.text ?? "") ? line.step : null;
}
