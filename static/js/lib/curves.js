// The attempts of one series of one job, as the chart draws them: the points, which show every extreme, and the means of
// the pixels' columns, from which the smoothed line is made.

import { oddness } from "./columns.js";

/** A value as JSON carries it: null where it is no number. */
export const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);

/** Exponential smoothing, corrected at the start so that the first values are not pulled to zero; gaps stay gaps. */
export function smooth(values, weight) {
  if (weight <= 0) return values.slice();
  let last = 0;
  let seen = 0;
  return values.map((value) => {
    if (value === null) return null;
    last = last * weight + (1 - weight) * value;
    seen += 1;
    return last / (1 - weight ** seen);
  });
}

export class Curves {
  constructor() {
    /** @type {Map<number, {steps: number[], values: (number|null)[], odd: {step: number, kinds: number}[], meanSteps: number[], means: (number|null)[]}>} */
    this.attempts = new Map();
  }

  /** Everything anew, as `decode` gives it. */
  load(attempts) {
    this.attempts.clear();
    for (const { attempt, steps, values, odd, meanSteps, means } of attempts) {
      this.attempts.set(attempt, { steps, values, odd, meanSteps, means });
    }
  }

  /** Add a live point. A step told twice keeps its first value; one that comes late is put in its place. */
  add(attempt, step, value) {
    if (!this.attempts.has(attempt)) this.attempts.set(attempt, { steps: [], values: [], odd: [], meanSteps: [], means: [] });
    const { steps, values, odd, meanSteps, means } = this.attempts.get(attempt);
    const at = steps.length === 0 || step > steps.at(-1) ? steps.length : lowerBound(steps, step);
    if (steps[at] === step) return false;
    steps.splice(at, 0, step);
    values.splice(at, 0, number(value));
    if (number(value) === null) {
      odd.push({ step, kinds: oddness(value) });
    } else {
      const place = lowerBound(meanSteps, step);
      meanSteps.splice(place, 0, step);
      means.splice(place, 0, value);
    }
    return true;
  }

  get newest() {
    return this.attempts.size ? Math.max(...this.attempts.keys()) : null;
  }

  get size() {
    let size = 0;
    for (const { steps } of this.attempts.values()) size += steps.length;
    return size;
  }

  /** Attempts in order, each with its smoothed means. */
  drawn(weight) {
    return [...this.attempts]
      .sort(([a], [b]) => a - b)
      .map(([attempt, curve]) => ({ ...curve, attempt, means: smooth(curve.means, weight) }));
  }

  /** The point of any attempt whose step is nearest; the newest attempt wins a tie. */
  nearest(step) {
    let best = null;
    for (const [attempt, { steps, values, odd }] of [...this.attempts].sort(([a], [b]) => b - a)) {
      if (!steps.length) continue;
      const right = lowerBound(steps, step);
      for (const index of [right - 1, right]) {
        if (index < 0 || index >= steps.length) continue;
        const distance = Math.abs(steps[index] - step);
        if (best === null || distance < best.distance) {
          const kinds = odd.find((one) => one.step === steps[index])?.kinds ?? 0;
          best = { attempt, step: steps[index], value: values[index], kinds, distance };
        }
      }
    }
    return best;
  }

  /** The point of the newest attempt before (-1) or after (1) a step; null behind its ends. */
  beside(step, direction) {
    const curve = this.attempts.get(this.newest);
    if (!curve) return null;
    const right = lowerBound(curve.steps, step);
    const index = direction < 0 ? right - 1 : right + (curve.steps[right] === step ? 1 : 0);
    return curve.steps[index] ?? null;
  }
}

/** The first index whose item is not below the value. */
export function lowerBound(items, value) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
