// One socket for the page. Elements with data-topic are followed: what changed is told to htmx as "changed:TOPIC" on
// <body>; log lines and points go to whoever called follow(). A lost connection comes back by itself and loses no line.

import { Backoff } from "./lib/backoff.js";
import { Throttle } from "./lib/throttle.js";
import { toast, words } from "./toast.js";

const SIGNED_OUT = 4401;
const REFUSED = 4403;
const TOPICS_LIMIT = 32;
// A network that goes away says nothing to an open socket, so silence is judged here: the server speaks every 30 s.
const CONNECT_MS = 10_000;
const SILENT_MS = 75_000;

/** @type {Map<string, {cursor: string|null, listener: object|null, told: boolean}>} */
const topics = new Map();
const backoff = new Backoff();
const hints = new Throttle((names) => {
  for (const name of names) window.htmx?.trigger(document.body, `changed:${name}`);
});
let socket = null;
let timer = 0;
let alarm = 0;
let wasOpen = false;
let over = false;

/**
 * Follow a topic's log. `listener` has onFrames(kind, frames) and onGap(n); `cursor` says after what to begin, null for
 * the last lines.
 */
export function follow(topic, listener, cursor = null) {
  topics.set(topic, { cursor, listener, told: false });
  connect();
  subscribe();
}

function scan() {
  const present = new Set();
  for (const element of document.querySelectorAll("[data-topic]")) {
    present.add(element.dataset.topic);
    if (element.dataset.log || topics.has(element.dataset.topic) || topics.size >= TOPICS_LIMIT) continue;
    topics.set(element.dataset.topic, { cursor: null, listener: null, told: false });
  }
  for (const [topic, known] of topics) {
    if (present.has(topic) || known.listener) continue;
    topics.delete(topic);
    if (known.told) send({ op: "unsubscribe", topic });
  }
  if (topics.size) {
    connect();
    subscribe();
  }
}

function connect() {
  if (socket || over) return;
  clearTimeout(timer);
  const address = new URL("/ws/", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const mine = new WebSocket(address);
  socket = mine;
  const now = (handler) => (event) => mine === socket && handler(event);
  mine.addEventListener("open", now(opened));
  mine.addEventListener("message", now(({ data }) => heard(JSON.parse(data))));
  mine.addEventListener("close", now(({ code }) => closed(code)));
  expectWord(CONNECT_MS);
}

function expectWord(within) {
  clearTimeout(alarm);
  alarm = setTimeout(drop, within);
}

/** Give the socket up without waiting for it to end: the network is gone, or nothing was heard for too long. */
function drop() {
  const lost = socket;
  if (!lost) return;
  closed();
  lost.close();
}

function opened() {
  expectWord(SILENT_MS);
  backoff.reset();
  document.getElementById("offline").hidden = true;
  for (const known of topics.values()) known.told = false;
  subscribe();
  // What changed while nobody told us is asked for once.
  if (wasOpen) window.htmx?.trigger(document.body, "back-online");
  wasOpen = true;
}

function subscribe() {
  if (socket?.readyState !== WebSocket.OPEN) return;
  for (const [topic, known] of topics) {
    if (known.told) continue;
    known.told = true;
    send({ op: "subscribe", topic, cursor: known.cursor, log: known.listener !== null });
  }
}

function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function heard(message) {
  expectWord(SILENT_MS);
  const known = topics.get(message.topic);
  if (!known) return;
  if (message.t === "hint") {
    hints.add(message.topic);
  } else if (message.t === "gap") {
    known.listener?.onGap(message.n);
  } else {
    known.listener?.onFrames(message.t, message.frames);
    known.cursor = message.cursor;
  }
}

function closed(code) {
  socket = null;
  clearTimeout(alarm);
  if (code === SIGNED_OUT || code === REFUSED) {
    over = true;
    toast(code === SIGNED_OUT ? words.signedOut : words.refused, "failed", true);
    return;
  }
  document.getElementById("offline").hidden = false;
  timer = setTimeout(connect, backoff.next());
}

window.addEventListener("online", connect);
window.addEventListener("offline", drop);
window.addEventListener("pageshow", ({ persisted }) => persisted && connect());
document.body.addEventListener("htmx:afterSettle", scan);
scan();
