import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff } from "../../static/js/lib/backoff.js";
import { decode, INFINITE, NAN } from "../../static/js/lib/columns.js";
import { Curves, smooth } from "../../static/js/lib/curves.js";
import { Lines, savedStep, shown } from "../../static/js/lib/lines.js";
import { addressOf, placeIn, readPlace, share, wholes, writePlace } from "../../static/js/lib/place.js";
import { Throttle } from "../../static/js/lib/throttle.js";

test("waits double up to the limit and never fall below half", () => {
  const low = new Backoff({ first: 100, limit: 1000, random: () => 0 });
  const high = new Backoff({ first: 100, limit: 1000, random: () => 1 });
  assert.deepEqual([1, 2, 3, 4, 5, 6].map(() => low.next()), [50, 100, 200, 400, 500, 500]);
  assert.deepEqual([1, 2, 3, 4, 5].map(() => high.next()), [100, 200, 400, 800, 1000]);
  high.reset();
  assert.equal(high.next(), 100);
});

test("the first hint goes out at once, the rest four times a second, each name once", () => {
  const told = [];
  let clock = 1000;
  const planned = [];
  const throttle = new Throttle((names) => told.push([clock, names]), {
    now: () => clock,
    later: (run, ms) => planned.push([clock + ms, run]),
  });
  for (let i = 0; i < 100; i++) {
    throttle.add("job.1");
    throttle.add("job.2");
    clock += 10;
    while (planned.length && planned[0][0] <= clock) planned.shift()[1]();
  }
  assert.deepEqual(told[0], [1000, ["job.1"]]);
  assert.deepEqual(told[1], [1250, ["job.2", "job.1"]]);
  assert.ok(told.length <= 5, `${told.length} in one second`);
  assert.ok(told.slice(1).every(([, names]) => names.length === new Set(names).size));
});

const frame = (rank, n, ...lines) => ({ src: { rank, attempt: 2, pod: "p" }, n, lines });

test("lines keep their order and number, take rank and attempt from their source, and are no more than the cap", () => {
  const kept = new Lines(3);
  kept.append(Lines.of([frame(1, 41, [5e15, "INFO", null, 7, "a"], [6e15, "WARN", 4, null, "b"])]));
  assert.deepEqual(kept.all.map(({ n, at, rank, attempt }) => [n, at, rank, attempt]), [[41, 5e9, 1, 2], [42, 6e9, 4, 2]]);
  const { added, gone } = kept.append(Lines.of([frame(0, 43, [7e15, "INFO", 0, 8, "c"], [8e15, "INFO", 0, 9, "d"])]));
  assert.deepEqual([added, gone].map((some) => some.map(({ text }) => text).join("")), ["cd", "a"]);
  const before = kept.prepend(Lines.of([frame(0, 40, [4e15, "INFO", 0, 1, "z"])]));
  assert.equal(kept.all.map((line) => line.text).join(""), "zbc");
  assert.deepEqual(before.gone.map(({ n }) => n), [44]);
  assert.deepEqual([kept.first, kept.last], [40, 43]);
  const { added: left } = kept.append(Lines.of([frame(0, 50, ..."efghi".split("").map((text) => [1, "", 0, null, text]))]));
  assert.equal(left.map(({ text }) => text).join(""), "ghi", "what is beyond the cap is not drawn at all");
});

test("a filter's lines have a number each; a gap before a frame stands before its lines and no filter hides it", () => {
  const frames = [{ src: { rank: 0 }, ns: [7, 12], lines: [[1, "", 0, 1, "x"], [2, "", 0, 2, "y"]], missing: 4 }];
  const [gap, ...lines] = Lines.of([...frames, { ...frame(0, 20, [1, "", 0, 1, "z"]), gap: { start: 0, end: 1 } }]);
  assert.deepEqual(gap, { gap: 4 });
  assert.deepEqual(lines.map((line) => line.n ?? line.gap), [7, 12, null, 20]);
  assert.ok(shown(gap, { ranks: new Set([9]), level: "ERROR", test: () => false }));
});

test("determined#3542, clearml#181: a bar that goes on is one row, and no other source's line", () => {
  const kept = new Lines();
  const bar = (n, text, over = true) => Lines.of([{ src: { pod: "a", attempt: 1 }, n, lines: [[1, "", 0, null, text, over ? { over } : null]] }]);
  kept.append(bar(1, " 10%", false));
  kept.append(Lines.of([{ src: { pod: "b", attempt: 1 }, n: 2, lines: [[1, "", 1, null, "other"]] }]));
  for (let n = 3; n < 10_003; n++) kept.append(bar(n, `${n}`));
  assert.deepEqual(kept.all.map(({ text }) => text), ["other", "10002"]);
});

test("filters by rank, level and text; a line without a level counts as INFO", () => {
  const line = (rank, level) => ({ rank, level, text: "loss" });
  const all = { ranks: new Set(), level: "" };
  assert.ok(shown(line(3, "DEBUG"), all));
  assert.ok(!shown(line(3, "INFO"), { ...all, ranks: new Set([0]) }));
  assert.ok(shown(line(null, ""), { ...all, ranks: new Set([0]) }));
  assert.ok(shown(line(0, "ERROR"), { ranks: new Set([0]), level: "WARN" }));
  assert.ok(!shown(line(0, ""), { ranks: new Set(), level: "WARN" }));
  assert.ok(!shown(line(0, ""), { ...all, test: (text) => text === "lr" }));
});

test("the line of a step is the first at or after it, of the attempt asked for", () => {
  const kept = new Lines();
  kept.append(Lines.of([frame(0, 1, [1, "", 0, null, "start"], [2, "", 0, 10, "ten"], [3, "", 0, 12, "twelve"])]));
  assert.equal(kept.atStep(11).text, "twelve");
  assert.equal(kept.atStep(10, 2).text, "ten");
  assert.equal(kept.atStep(10, 1), null);
  assert.equal(kept.atStep(13), null);
  assert.equal(savedStep({ step: 50, text: "Checkpoint saved in 0.1 s" }), 50);
  assert.equal(savedStep({ step: 50, text: "Loss: 1.2" }), null);
});

test("smoothing begins at the first value and leaves gaps alone", () => {
  const means = smooth([4, 4, null, 4], 0.9);
  assert.deepEqual(means.map((mean) => mean === null || Math.abs(mean - 4) < 1e-12), [true, true, true, true]);
  assert.equal(means[2], null);
  assert.deepEqual(smooth([1, 2], 0), [1, 2]);
});

test("a step told twice keeps its first value, a late one finds its place, NaN is a gap that is remembered", () => {
  const curves = new Curves();
  curves.load([{ attempt: 1, steps: [1, 3], values: [3, 1], odd: [], meanSteps: [1, 3], means: [3, 1] }]);
  assert.ok(!curves.add(1, 3, 99));
  assert.ok(curves.add(1, 2, 2));
  assert.ok(curves.add(2, 2, "Infinity"));
  assert.deepEqual(curves.attempts.get(1).values, [3, 2, 1]);
  assert.deepEqual(curves.attempts.get(1).means, [3, 2, 1]);
  assert.deepEqual(curves.attempts.get(2), { steps: [2], values: [null], odd: [{ step: 2, kinds: INFINITE }], meanSteps: [], means: [] });
  assert.equal(curves.newest, 2);
  assert.deepEqual(curves.nearest(2), { attempt: 2, step: 2, value: null, kinds: INFINITE, distance: 0 });
  assert.equal(curves.nearest(9).step, 3);
  assert.equal(curves.beside(2, 1), null);
  assert.equal(curves.beside(5, -1), 2);
});

/** A column as the server packs it: narrow, one attempt. */
function packed(columns, start = 0) {
  const head = new TextEncoder().encode(JSON.stringify({ start, stop: 99, width: 2, attempts: [{ attempt: 1, total: 9, columns: columns.length, wide: false }] }));
  const bytes = new DataView(new ArrayBuffer(4 + head.length + 31 * columns.length));
  bytes.setUint32(0, head.length, true);
  for (const [index, byte] of head.entries()) bytes.setUint8(4 + index, byte);
  let at = 4 + head.length;
  for (const { first, after, values, mean, odd } of columns) {
    bytes.setUint32(at, first, true);
    for (const [index, one] of after.entries()) bytes.setUint16(at + 4 + 2 * index, one, true);
    for (const [index, one] of [...values, mean].entries()) bytes.setFloat32(at + 10 + 4 * index, one, true);
    bytes.setUint8(at + 30, odd);
    at += 31;
  }
  return bytes.buffer;
}

test("a packed column keeps its spike, its mean and what was no number", () => {
  const { attempts: [curve] } = decode(packed([
    { first: 0, after: [7, 3, 9], values: [2, 1, 64, 2.5], mean: 4, odd: NAN },
    { first: 10, after: [0, 0, 0], values: [Number.NaN, Number.NaN, Number.NaN, Number.NaN], mean: Number.NaN, odd: NAN },
  ], 100));
  assert.deepEqual(curve.steps, [100, 103, 107, 109, 110]);
  assert.deepEqual(curve.values, [2, 64, 1, 2.5, null]);
  assert.deepEqual(curve.odd, [{ step: 100, kinds: NAN }, { step: 110, kinds: NAN }]);
  assert.deepEqual([curve.meanSteps, curve.means, curve.total], [[109], [4], 9]);
});

test("the address keeps what was chosen and nothing that is empty", () => {
  const hash = writePlace({ rank: "0,3", level: "", step: 120, find: "a b&c" });
  assert.equal(hash, "#rank=0,3&step=120&find=a+b%26c");
  assert.deepEqual(readPlace(hash), { rank: "0,3", step: "120", find: "a b&c" });
  assert.equal(writePlace({}), "");
});

test("what an address says wrong counts as not said", () => {
  assert.deepEqual(wholes("0,3,abc,-1,1.5,,99999999999999999999"), [0, 3]);
  assert.deepEqual([wholes(undefined), wholes("")], [[], []]);
  assert.deepEqual(["0", "0.99", "1", "-1", "NaN", "x", "", undefined].map((text) => share(text, 0.6)), [0, 0.99, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]);
});

test("a link to a line keeps its place at the log and what else is chosen", () => {
  const at = { pathname: "/jobs/1/", search: "?tab=history&line=4", hash: "#log" };
  assert.deepEqual(placeIn(at), { line: "4" });
  assert.equal(addressOf(at, { line: 12 }), "/jobs/1/?tab=history&line=12#log");
  assert.equal(addressOf(at, { line: 12, rank: "0" }), "/jobs/1/?tab=history&line=12#rank=0");
  assert.equal(addressOf({ ...at, hash: "#step=1" }, {}), "/jobs/1/?tab=history");
});
