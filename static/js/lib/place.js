// What a page's scripts keep in the address: "?line=4210#rank=0,3&level=WARN&step=120". Empty values are left out.

/** All that an address says; the line of a log stands in its query, so that a link can end with "#log". */
export function placeIn({ search, hash }) {
  const line = new URLSearchParams(search).get("line");
  return { ...readPlace(hash), ...(line && { line }) };
}

/** The address of a place on the same page. */
export function addressOf({ pathname, search, hash }, { line, ...place }) {
  const query = new URLSearchParams(search);
  if (line) query.set("line", line);
  else query.delete("line");
  const text = query.toString();
  return `${pathname}${text && `?${text}`}${writePlace(place) || (hash === "#log" ? hash : "")}`;
}

/** The whole numbers of a list with commas; what is none is left out. */
export function wholes(text) {
  return (text ?? "").split(",").filter((one) => /^\d{1,15}$/.test(one)).map(Number);
}

/** A share of one, of one at most a hundredth less; `usual` where the text is none. */
export function share(text, usual) {
  const number = text ? Number(text) : Number.NaN;
  return number >= 0 && number <= 0.99 ? number : usual;
}

export function readPlace(hash) {
  const found = {};
  for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (value) found[key] = value;
  }
  return found;
}

export function writePlace(place) {
  const kept = new URLSearchParams();
  for (const [key, value] of Object.entries(place)) {
    if (value !== "" && value !== null && value !== undefined) kept.set(key, String(value));
  }
  // Commas and colons are legal in a fragment and far easier to read than %2C and %3A.
  const text = kept.toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
  return text ? `#${text}` : "";
}
