// What a page's scripts keep in the address: "#rank=0,3&level=WARN&step=120". Empty values are left out.

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
  // Commas are legal in a fragment and far easier to read than %2C.
  const text = kept.toString().replaceAll("%2C", ",");
  return text ? `#${text}` : "";
}
