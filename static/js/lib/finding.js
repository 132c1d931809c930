// What was typed into a log's search field: somewhere to go, or something to look for.

const JUMP = /^(step|line|time):\s*(.+)$/i;
const MOMENT = /^(?:(\d{4})-(\d\d)-(\d\d)[T ]+)?(\d{1,2}):(\d\d)(?::(\d\d))?$/;

/**
 * @param {string} text
 * @param {{regex?: boolean, near?: number, zone?: string}} options `near` is a moment (ms) on the day that is meant
 * @returns {{jump: "step"|"line"|"at", value: string}|{q: string, regex: boolean, test: (line: string) => boolean}|{fault: true|"pattern"}|{}}
 */
export function readSearch(text, { regex = false, near = Date.now(), zone } = {}) {
  const wanted = text.trim();
  if (!wanted) return {};
  const jump = JUMP.exec(wanted);
  if (jump && !regex) return readJump(jump[1].toLowerCase(), jump[2].trim(), near, zone);
  const slashes = /^\/(.+)\/i?$/.exec(wanted);
  if (regex || slashes) return readPattern(slashes ? slashes[1] : wanted);
  const lower = wanted.toLowerCase();
  return { q: wanted, regex: false, test: (line) => line.toLowerCase().includes(lower) };
}

function readJump(kind, value, near, zone) {
  if (kind === "time") {
    const at = readMoment(value, near, zone);
    return at === null ? { fault: true } : { jump: "at", value: `${at}000000` };
  }
  const number = value.replace(/[,\s]/g, "");
  return /^\d{1,15}$/.test(number) ? { jump: kind, value: number } : { fault: true };
}

/** What RE2, which searches the kept log, does not know; a browser would mark it all the same. */
const NOT_IN_RE2 = /\(\?(?:[=!]|<[=!])|\\[1-9]|\\k</;

function readPattern(source) {
  if (NOT_IN_RE2.test(source)) return { fault: "pattern" };
  try {
    const pattern = new RegExp(source, "i");
    return { q: source, regex: true, test: (line) => pattern.test(line) };
  } catch {
    // The server's dialect differs in places: it has the last word.
    return { q: source, regex: true, test: () => false };
  }
}

/** A time of day, or of a given day, as the reader's clock shows it, in milliseconds; null for none. */
export function readMoment(text, near, zone) {
  const found = MOMENT.exec(text);
  if (!found) return null;
  const today = new Date(near + offset(near, zone));
  const [year, month, day] = found[1]
    ? [Number(found[1]), Number(found[2]) - 1, Number(found[3])]
    : [today.getUTCFullYear(), today.getUTCMonth(), today.getUTCDate()];
  const [hour, minute, second] = [found[4], found[5], found[6] ?? 0].map(Number);
  if (hour > 23 || minute > 59 || second > 59) return null;
  const wall = Date.UTC(year, month, day, hour, minute, second);
  // The clock's distance from UTC then, found at a moment that is at most a day off.
  return wall - offset(wall - offset(wall, zone), zone);
}

/** How far the clocks of a zone are ahead of UTC at a moment, in milliseconds. */
function offset(at, zone) {
  const format = new Intl.DateTimeFormat("en", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  const part = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  const wall = Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second);
  return wall - Math.floor(at / 1000) * 1000;
}
