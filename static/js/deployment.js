// The log of one deployment, merged from its replicas. What is chosen stands in the address.

import { readPlace, writePlace } from "./lib/place.js";
import { follow, moveTo } from "./live.js";
import { LogCard } from "./logcard.js";

const { topic } = document.querySelector("[data-log]").dataset;
let place = readPlace(location.hash);

const log = new LogCard(document.getElementById("log-card"), {
  place,
  keep: (changes) => {
    place = { ...place, ...changes };
    history.replaceState(history.state, "", location.pathname + location.search + writePlace(place));
  },
  onPick: () => {},
  onLines: () => {},
  restart: (cursor) => moveTo(topic, cursor),
});
const listener = {
  onFrames: (kind, frames) => kind === "log" && log.add(frames),
  onGap: (count) => log.addGap(count),
};
follow(topic, listener, await log.load());
