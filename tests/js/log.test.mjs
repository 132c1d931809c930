import assert from "node:assert/strict";
import { test } from "node:test";
import { readMoment, readSearch } from "../../static/js/lib/finding.js";
import { shown } from "../../static/js/lib/lines.js";
import { Incoming } from "../../static/js/lib/live-lines.js";
import { spanOf } from "../../static/js/logrow.js";
import { keepMoment, keptMoment, readSpan, typedMoment } from "../../static/js/lib/span.js";

test("a search is somewhere to go, an expression or plain text", () => {
  assert.deepEqual(readSearch(" step: 1,200 "), { jump: "step", value: "1200" });
  assert.deepEqual(readSearch("line:4210"), { jump: "line", value: "4210" });
  assert.ok(readSearch("step: soon").fault);
  assert.ok(readSearch("/lo+ss/i").test("LOOSS"));
  assert.equal(readSearch("step:1", { regex: true }).q, "step:1");
  assert.equal(readSearch("(", { regex: true }).test("("), false, "the server says what is wrong with it");
  for (const text of ["(?=a)b", "(?<!a)b", "(a)\\1", "(?<n>a)\\k<n>"]) {
    assert.equal(readSearch(text, { regex: true }).fault, "pattern", "RE2 knows none of these");
  }
  assert.ok(readSearch("(?:a|b)\\d", { regex: true }).test("b7"));
  assert.ok(readSearch("Loss (").test("the loss ( is"));
  assert.deepEqual(readSearch("  "), {});
});

test("a time is meant as the reader's clock shows it, on the day that is being read", () => {
  const near = Date.UTC(2026, 2, 1, 20); // 04:00 of the next day in Shanghai
  const at = (...given) => new Date(readMoment(...given)).toISOString();
  assert.equal(at("15:32", near, "Asia/Shanghai"), "2026-03-02T07:32:00.000Z");
  assert.equal(at("2026-03-29 03:30:05", near, "Europe/Berlin"), "2026-03-29T01:30:05.000Z");
  assert.equal(at("2026-03-29 01:30", near, "Europe/Berlin"), "2026-03-29T00:30:00.000Z", "before the clocks go forward");
  assert.equal(readMoment("25:00", near, "UTC"), null);
  assert.deepEqual(readSearch("time:20:00", { near, zone: "UTC" }), { jump: "at", value: "1772395200000000000" });
});

test("a span holds what is typed, by the reader's clock, and stands in an address for any zone", () => {
  const reader = { near: Date.UTC(2026, 2, 1, 20), zone: "Asia/Shanghai" };
  const span = readSpan("15:32", "2026-03-02 15:40:07", reader);
  assert.deepEqual([span.since, span.until].map(keepMoment), ["2026-03-02T07:32:00Z", "2026-03-02T07:40:08Z"]);
  assert.equal(keptMoment(keepMoment(span.since)), span.since);
  assert.equal(typedMoment(span.until - 1000, reader.zone), "2026-03-02 15:40:07");
  const minute = readSpan("15:32", "15:32", reader);
  assert.equal(minute.until - minute.since, 60_000, "the same minute twice is that minute");
  assert.deepEqual(readSpan("", " ", reader), { since: null, until: null, faults: {} });
  assert.deepEqual(readSpan("soon", "15:60", reader).faults, { since: "time", until: "time" });
  assert.deepEqual(readSpan("15:40", "15:32", reader).faults, { until: "order" });
  assert.deepEqual([keptMoment(undefined), keepMoment(null)], [null, ""]);
  assert.ok(Number.isNaN(keptMoment("soon")) && Number.isNaN(keptMoment("2026-13-02T07:32:00Z")));
  const line = (at) => shown({ at, text: "", rank: null, level: "" }, { ranks: new Set(), level: "", ...span });
  assert.deepEqual([span.since - 1, span.since, span.until - 1, span.until].map(line), [false, true, true, false]);
});

const lines = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => ({ n: from + index }));
const all = () => true;
const held = ({ lines: some }) => some.map(({ n, gap }) => n ?? `${gap} missing`);

test("lines told twice are taken once, and a hole says how wide it is and where it begins", () => {
  const incoming = new Incoming();
  incoming.add(lines(5, 7), all);
  assert.deepEqual(incoming.add(lines(6, 8), all).map(({ n }) => n), [8]);
  incoming.add(lines(11, 12), all);
  assert.deepEqual(held(incoming), [5, 6, 7, 8, "2 missing", 11, 12]);
  assert.equal(incoming.lines[4].from, 9);
  assert.deepEqual([incoming.from, incoming.to], [11, 12]);
});

test("a burst of 40,000 keeps the newest 5,000, and says that it let others go", () => {
  const incoming = new Incoming();
  for (let from = 1; from < 40_000; from += 1000) incoming.add(lines(from, from + 999), all);
  assert.ok(incoming.lines.length <= 10_000);
  const taken = incoming.take();
  assert.deepEqual([taken[0].n, taken.length, incoming.lines.length, incoming.skipped], [35_001, 5000, 0, true]);
});

test("what a filter hides is heard all the same", () => {
  const incoming = new Incoming();
  incoming.add(lines(1, 10), ({ n }) => n === 3);
  incoming.add(lines(11, 20), () => false);
  assert.deepEqual([held(incoming), incoming.to], [[3], 20]);
});

test("missing lines are looked for from the line before the gap to the one after it, whole milliseconds around", () => {
  const start = 1764548400123.25 * 1e6;
  const asked = Object.fromEntries(spanOf({ start, end: start + 2e9, rank: 3 }));
  assert.deepEqual(asked, { since: "2025-12-01T00:20:00.123Z", until: "2025-12-01T00:20:02.124Z", rank: "3" });
  assert.equal(spanOf({ start, end: start, rank: null }).get("rank"), null, "nobody knows of which rank");
});
