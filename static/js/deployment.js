// The log of one deployment, merged from its replicas. What is chosen stands in the address.

import { addressOf, placeIn } from "./lib/place.js";
import { follow } from "./live.js";
import { LogCard } from "./logcard.js";

const { topic } = document.querySelector("[data-log]").dataset;
let place = placeIn(location);

const log = new LogCard(document.getElementById("log-card"), {
  place,
  keep: (changes) => {
    place = { ...place, ...changes };
    history.replaceState(history.state, "", addressOf(location, place));
  },
  onPick: () => {},
  onLines: () => {},
});
const listener = {
  onFrames: (kind, frames) => kind === "log" && log.add(frames),
  onGap: (count) => log.addGap(count),
};
follow(topic, listener, await log.open(place.line ?? null));
