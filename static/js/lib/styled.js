// The text of a log line in parts that look alike: what its terminal colours say, and characters that were written out
// because nobody would see them.

const HUES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const KNOWN = new Set([...HUES, ...HUES.map((hue) => `on-${hue}`), "bold", "dim", "italic", "underline", "strike"]);
const WRITTEN_OUT = /[\u2400-\u241f\u2421]|\u27e8U\+[0-9A-F]{4}\u27e9/g;
// Half a surrogate pair: only then does a character's place differ from its index.
const WIDE = /[\ud800-\udfff]/;

/**
 * @param {string} text
 * @param {[number, number, string][]} styles from and up to which character, and names
 * @returns {{text: string, names: string}[]} names are classes; "" for plain text
 */
export function partsOf(text, styles = []) {
  if (!styles.length) return withPictures(text, "");
  const at = WIDE.test(text) ? indexes(text) : (place) => place;
  const parts = [];
  let done = 0;
  for (const [from, to, names] of styles) {
    const start = Math.max(at(from), done);
    const end = Math.min(at(to), text.length);
    if (end <= start) continue;
    if (start > done) parts.push(...withPictures(text.slice(done, start), ""));
    parts.push(...withPictures(text.slice(start, end), classes(names)));
    done = end;
  }
  if (done < text.length) parts.push(...withPictures(text.slice(done), ""));
  return parts;
}

function classes(names) {
  return names
    .split(" ")
    .filter((name) => KNOWN.has(name))
    .map((name) => `ansi-${name}`)
    .join(" ");
}

function withPictures(text, names) {
  const parts = [];
  let done = 0;
  for (const { 0: picture, index } of text.matchAll(WRITTEN_OUT)) {
    if (index > done) parts.push({ text: text.slice(done, index), names });
    parts.push({ text: picture, names: `${names} unseen`.trim() });
    done = index + picture.length;
  }
  if (done < text.length || !parts.length) parts.push({ text: text.slice(done), names });
  return parts;
}

function indexes(text) {
  const starts = [];
  let index = 0;
  for (const character of text) {
    starts.push(index);
    index += character.length;
  }
  return (place) => starts[place] ?? text.length;
}
