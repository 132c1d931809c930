// The page of one job: its log and its loss curve, tied together. A click on a point shows its lines, a click on a line
// its point; what is chosen stands in the address.

import { savedStep } from "./lib/lines.js";
import { addressOf, placeIn, wholes } from "./lib/place.js";
import { Throttle } from "./lib/throttle.js";
import { follow } from "./live.js";
import { LogCard } from "./logcard.js";
import { LossChart } from "./losschart.js";

const PACE_MS = 3000;

const root = document.querySelector("[data-log]");
const { topic } = root.dataset;
let place = placeIn(location);

/** Keep a choice in the address without adding to the history. */
function keep(changes) {
  place = { ...place, ...changes };
  history.replaceState(history.state, "", addressOf(location, place));
}

const chart = new LossChart(document.getElementById("loss"), { place, keep });
// A point of the curve was chosen: what was printed at its step?
root.addEventListener("step", ({ detail: { step, attempt } }) => {
  keep({ step });
  log.showStep(step, attempt);
});
const log = new LogCard(document.getElementById("log-card"), {
  place,
  keep,
  onPick: (step, attempt) => {
    keep({ step });
    chart.mark(step, attempt);
  },
  onLines: (lines) => {
    const saved = lines.map(savedStep).filter((step) => step !== null);
    if (saved.length) chart.addSaves(saved);
  },
});

// Step, loss and times on the page come from the server, asked anew as points arrive.
const paced = new Throttle(() => window.htmx?.trigger(document.body, "points"), { every: PACE_MS });
const listener = {
  onFrames: (kind, frames) => {
    if (kind === "log") return log.add(frames);
    chart.addFrames(frames);
    paced.add(kind);
  },
  onGap: (count) => log.addGap(count),
};

// The curve and the lines are read in any order; then the socket goes on from where the lines end.
const [cursor] = await Promise.all([log.open(place.line ?? null), chart.load()]);
follow(topic, listener, cursor);
const [step] = wholes(place.step);
if (step !== undefined) {
  if (!place.line) log.showStep(step);
  chart.mark(step);
}

document.body.addEventListener("back-online", () => chart.load());
// A tab of the page pushed its own address: what was chosen here still belongs to it.
document.body.addEventListener("htmx:pushedIntoHistory", () => keep({}));
