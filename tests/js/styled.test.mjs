import assert from "node:assert/strict";
import { test } from "node:test";
import { partsOf } from "../../static/js/lib/styled.js";

const told = (...given) => partsOf(...given).map(({ text, names }) => [text, names]);

test("polyaxon#451: colours are classes of parts, and the parts are the whole text", () => {
  const styles = [[0, 3, "bold red"], [10, 14, "on-blue"]];
  assert.deepEqual(told("red plain blue!", styles), [
    ["red", "ansi-bold ansi-red"], [" plain ", ""], ["blue", "ansi-on-blue"], ["!", ""],
  ]);
});

test("places count characters, also behind one that takes two units", () => {
  assert.deepEqual(told("👩 red", [[2, 5, "red"]]), [["👩 ", ""], ["red", "ansi-red"]]);
});

test("names that are no styles of ours become no class", () => {
  assert.deepEqual(told("x", [[0, 1, "btn log-gap red"]]), [["x", "ansi-red"]]);
  assert.deepEqual(told("abc", [[2, 1, "red"], [5, 9, "red"]]), [["abc", ""]]);
});

test("rancher#13402: what was written out stands apart, in colour too", () => {
  assert.deepEqual(told("null ␀ byte ⟨U+202E⟩", [[0, 6, "red"]]), [
    ["null ", "ansi-red"], ["␀", "ansi-red unseen"], [" byte ", ""], ["⟨U+202E⟩", "unseen"],
  ]);
  assert.deepEqual(told(""), [["", ""]]);
});
