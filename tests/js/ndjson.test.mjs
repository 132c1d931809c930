import assert from "node:assert/strict";
import { test } from "node:test";
import { Lines } from "../../static/js/lib/ndjson.js";

test("lines come whole however the stream is cut, and the last needs no newline", () => {
  const values = [{ t: "delta", text: "港口\n" }, { t: "delta", text: "" }, { t: "done", rate: null }];
  const stream = values.map((value) => JSON.stringify(value)).join("\n");
  for (let size = 1; size <= stream.length; size += 1) {
    const lines = new Lines();
    const found = [];
    for (let start = 0; start < stream.length; start += size) found.push(...lines.feed(stream.slice(start, start + size)));
    assert.deepEqual([...found, ...lines.end()], values);
    assert.deepEqual(lines.end(), []);
  }
});

test("what is no JSON is an error, and an empty line nothing", () => {
  assert.deepEqual(new Lines().feed("\n\n"), []);
  assert.throws(() => new Lines().feed("<html>\n"), SyntaxError);
});
