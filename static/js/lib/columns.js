// A stretch of a curve as REST packs it for a page: for each pixel's column its first, lowest, highest and last point,
// the mean of what is finite, and which values in it were no numbers.

export const NAN = 1;
export const INFINITE = 2;
export const MINUS_INFINITE = 4;

/** The bits of `odd` for a value as JSON or bytes carry it; 0 for a finite number. */
export function oddness(value) {
  if (typeof value === "number" && Number.isFinite(value)) return 0;
  if (value === "Infinity" || value === Number.POSITIVE_INFINITY) return INFINITE;
  return value === "-Infinity" || value === Number.NEGATIVE_INFINITY ? MINUS_INFINITE : NAN;
}

/**
 * @param {ArrayBuffer} buffer
 * @returns {{start: number, stop: number, attempts: {attempt: number, total: number, steps: number[],
 *   values: (number|null)[], odd: {step: number, kinds: number}[], meanSteps: number[], means: (number|null)[]}[]}}
 */
export function decode(buffer) {
  const view = new DataView(buffer);
  const length = view.getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  const attempts = head.attempts.map(({ attempt, total, columns, wide }) => {
    const curve = { attempt, total, steps: [], values: [], odd: [], meanSteps: [], means: [] };
    for (let column = 0; column < columns; column++) at = readColumn(view, at, wide, head.start, curve);
    return curve;
  });
  return { start: head.start, stop: head.stop, attempts };
}

function readColumn(view, begin, wide, start, curve) {
  let at = begin;
  const step = () => {
    const found = wide ? view.getFloat64(at, true) : view.getUint16(at, true);
    at += wide ? 8 : 2;
    return found;
  };
  const value = () => {
    const found = wide ? view.getFloat64(at, true) : view.getFloat32(at, true);
    at += wide ? 8 : 4;
    return found;
  };
  const first = start + (wide ? view.getFloat64(at, true) : view.getUint32(at, true));
  at += wide ? 8 : 4;
  const [low, high, last] = [step(), step(), step()].map((after) => first + after);
  const [firstValue, lowValue, highValue, lastValue] = [value(), value(), value(), value()];
  const mean = value();
  const kinds = view.getUint8(at);
  const points = [[first, firstValue], [low, lowValue], [high, highValue]].slice(0, Number.isNaN(lowValue) ? 1 : 3);
  points.push([last, lastValue]);
  points.sort(([a], [b]) => a - b);
  let known = Number.NaN;
  let told = 0;
  for (const [where, what] of points) {
    if (where === known) continue;
    known = where;
    curve.steps.push(where);
    curve.values.push(Number.isFinite(what) ? what : null);
    if (Number.isFinite(what)) continue;
    curve.odd.push({ step: where, kinds: oddness(what) });
    told |= oddness(what);
  }
  // What is odd in the column's middle is marked at its beginning, which is the same pixel.
  if (kinds & ~told) curve.odd.push({ step: first, kinds: kinds & ~told });
  if (!Number.isNaN(mean)) {
    curve.meanSteps.push(last);
    curve.means.push(Number.isFinite(mean) ? mean : null);
  }
  return at + 1;
}
