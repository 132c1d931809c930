// A span of time of a log: as it is typed, and as an address keeps it.

import { readMoment } from "./finding.js";

const KEPT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const SECOND = 1000;
const MINUTE = 60 * SECOND;

/**
 * @typedef {{since: number|null, until: number|null}} Span  milliseconds; `until` itself is not in it
 * @param {string} since
 * @param {string} until  what is typed is in the span: the whole second, or the whole minute where no second is named
 * @param {{near: number, zone: string}} reader `near` is a moment on the day that is meant where none is named
 * @returns {Span & {faults: {since?: "time", until?: "time"|"order"}}}
 */
export function readSpan(since, until, { near, zone }) {
  const faults = {};
  const read = (name, text, wide) => {
    const typed = text.trim();
    if (!typed) return null;
    const at = readMoment(typed, near, zone);
    if (at === null) faults[name] = "time";
    else if (wide) return at + (/:\d\d:\d\d$/.test(typed) ? SECOND : MINUTE);
    return at;
  };
  const span = { since: read("since", since, false), until: read("until", until, true) };
  if (span.since !== null && span.until !== null && span.until <= span.since) faults.until = "order";
  return { ...span, faults };
}

/** A moment in an address, in milliseconds: the same for readers in any zone. null for none, NaN for what is no time. */
export function keptMoment(text) {
  if (!text) return null;
  return KEPT.test(text) ? Date.parse(text) : Number.NaN;
}

export function keepMoment(at) {
  return at === null ? "" : new Date(at).toISOString().replace(/\.\d+Z$/, "Z");
}

/** A moment as it can be typed, by the reader's clock. */
export function typedMoment(at, zone) {
  const parts = new Intl.DateTimeFormat("en", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  }).formatToParts(at);
  const part = Object.fromEntries(parts.map(({ type, value }) => [type, value]));
  return `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second}`;
}
