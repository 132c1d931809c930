// One picture of the chart card: one series, of this job's attempts and of the newest attempt of each job beside it.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { INFINITE, MINUS_INFINITE, NAN } from "./lib/columns.js";
import { lowerBound } from "./lib/curves.js";

const HIGH = 264;
const LOW = 150;

/**
 * @typedef {{job: string, label: string, colour: string, own: boolean, curves: Curves}} Source
 * @typedef {{weight: number, log: boolean, saves: Set<number>, marked: object|null, broken: number[], words: object,
 *   format: (value: number) => string, onZoom: (from: number, to: number) => void, onReset: () => void,
 *   onPick: (step: number, attempt: number) => void, onKey: (event: KeyboardEvent, panel: Panel) => void,
 *   say: (text: string) => void}} Card
 */
export class Panel {
  /** @param {HTMLElement} box @param {{name: string, title: string, unit: string, source: string}} series @param {Card} card */
  constructor(box, series, card, first) {
    this.series = series;
    this.card = card;
    this.height = first ? HIGH : LOW;
    this.box = box;
    /** @type {Source[]} */
    this.sources = [];
    box.className = "chart-panel";
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", card.words.keys.replace("{series}", series.title));
    this.head = line("div", "", "chart-title");
    this.name(series);
    this.ground = line("div", "", "chart-ground");
    this.tip = line("div", "", "chart-tip");
    this.tip.hidden = true;
    box.append(this.head, this.ground, this.tip);
    box.addEventListener("keydown", (event) => card.onKey(event, this));
  }

  /** What it is, and where its points come from if not from the log alone. */
  name({ title, unit, source }) {
    this.head.textContent = unit ? `${title}, ${unit}` : title;
    if (source) this.head.append(" ", line("span", source, "soft"));
  }

  get own() {
    return this.sources.find((one) => one.own)?.curves ?? null;
  }

  get size() {
    return this.sources.reduce((sum, { curves }) => sum + curves.size, 0);
  }

  remove() {
    this.plot?.destroy();
    this.box.remove();
  }

  resize() {
    this.plot?.setSize(this.#measure());
  }

  /** Everything again; `anew` after what no data says: the theme, the scale. */
  draw(anew = false) {
    this.drawn = this.sources.flatMap(({ curves, ...source }) => {
      const found = curves.drawn(this.card.weight).filter(({ steps }) => steps.length);
      return (source.own ? found : found.slice(-1)).map((curve) => ({ ...source, ...curve, newest: curve.attempt === curves.newest }));
    });
    if (!this.drawn.length) {
      this.plot?.destroy();
      this.plot = null;
      return;
    }
    const shape = this.drawn.map(({ job, attempt, colour }) => `${job} ${attempt} ${colour}`).join();
    if (anew || !this.plot || this.shape !== shape) this.#build(shape);
    else this.plot.setData(this.#data());
  }

  #data() {
    const fit = (value) => (this.card.log && value !== null && value <= 0 ? null : value);
    return uPlot.join(
      this.drawn.flatMap(({ steps, values, meanSteps, means }) => [[steps, values.map(fit)], [meanSteps, means.map(fit)]]),
    );
  }

  #measure() {
    return { width: Math.max(200, this.ground.clientWidth), height: this.height };
  }

  #build(shape) {
    this.shape = shape;
    this.plot?.destroy();
    const css = getComputedStyle(document.documentElement);
    this.font = css.getPropertyValue("--sans");
    this.colours = this.#colours();
    const { text, grid } = this.colours;
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: `11px ${this.font}` };
    const series = this.drawn.flatMap((one) => {
      const stroke = one.own && !one.newest ? this.colours["--series-past"] : this.colours[one.colour];
      // Behind the smoothed line stands every extreme: whatever the weight, no spike is hidden.
      return [
        { stroke, width: 1, alpha: this.card.weight > 0 ? 0.35 : 1, points: { show: one.steps.length === 1 } },
        { stroke, width: 2, points: { show: false }, show: this.card.weight > 0 },
      ];
    });
    const { format, brief } = this.card;
    this.plot = new uPlot(
      {
        ...this.#measure(),
        scales: { x: { time: false, range: (_, low, high) => this.card.zoomed() ?? [low, high === low ? low + 1 : high] }, y: { distr: this.card.log ? 3 : 1 } },
        series: [{}, ...series],
        axes: [
          { ...axis, size: 28, values: (_, steps) => steps.map((step) => (Number.isInteger(step) ? format(step) : "")) },
          { ...axis, size: 58, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : brief(tick))) },
        ],
        cursor: {
          points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 6 }, sync: { key: "chart" },
          bind: { dblclick: () => () => this.card.onReset() },
        },
        legend: { show: false },
        hooks: { setCursor: [() => this.#point()], setSelect: [() => this.#selected()], draw: [() => this.#decorate()] },
      },
      this.#data(),
      this.ground,
    );
    this.plot.over.addEventListener("click", () => this.#picked());
    this.plot.over.addEventListener("mouseleave", () => this.#leave());
  }

  /** A light-dark() token resolves only where it is used as a colour. */
  #colours() {
    const probe = document.createElement("span");
    this.box.append(probe);
    const colour = (name) => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const found = { grid: colour("--grid"), text: colour("--text-3"), red: colour("--red-solid"), redText: colour("--red"), ground: colour("--surface"), "--series-past": colour("--series-past") };
    for (const { colour: name } of this.sources) found[name] = colour(name);
    probe.remove();
    return found;
  }

  #selected() {
    const { left, width } = this.plot.select;
    if (width < 4) return;
    this.plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.dragged = true;
    this.card.onZoom(this.plot.posToVal(left, "x"), this.plot.posToVal(left + width, "x"));
  }

  #picked() {
    // The click that ends a drag is none.
    if (this.dragged) {
      this.dragged = false;
      return;
    }
    const { left } = this.plot.cursor;
    const point = left < 0 ? null : this.own?.nearest(this.plot.posToVal(left, "x"));
    if (point) this.card.onPick(point.step, point.attempt);
  }

  #leave() {
    this.tip.hidden = true;
  }

  /** Put the reading cross at a step, as the keyboard does. */
  point(step) {
    this.plot?.setCursor({ left: this.plot.valToPos(step, "x"), top: 8 });
    this.tip.hidden = false;
    this.card.say([...this.tip.children].map((one) => one.textContent).join(". "));
  }

  #point() {
    const { left, top, idx } = this.plot.cursor;
    const under = this.box.matches(":hover, :focus-within, :focus");
    this.tip.hidden = !under || left < 0 || idx === null;
    if (this.tip.hidden) return;
    const { words, format } = this.card;
    const at = this.plot.posToVal(left, "x");
    const lines = [];
    for (const source of this.sources) {
      const point = source.curves.nearest(at);
      if (!point) continue;
      if (!lines.length) lines.push(line("b", words.step.replace("{step}", format(point.step))));
      const value = point.value === null ? odd(point.kinds) : format(point.value);
      const mean = this.#mean(source, point);
      const text = mean === null ? value : words.tip.replace("{value}", value).replace("{mean}", format(mean));
      const unit = this.series.unit && mean === null ? ` ${this.series.unit}` : "";
      lines.push(line("div", this.sources.length > 1 ? `${source.label}: ${text}${unit}` : text + unit));
      if (source.own && source.curves.attempts.size > 1) lines.push(line("div", words.attempt.replace("{attempt}", point.attempt), "quiet"));
    }
    this.tip.replaceChildren(...lines);
    const right = left > this.plot.over.clientWidth / 2;
    this.tip.style.left = `${left + this.plot.over.offsetLeft + (right ? -16 - this.tip.offsetWidth : 24)}px`;
    this.tip.style.top = `${Math.max(4, top)}px`;
  }

  #mean({ job }, { attempt, step }) {
    if (!this.card.weight) return null;
    const curve = this.drawn.find((one) => one.job === job && one.attempt === attempt);
    return curve?.means[Math.min(lowerBound(curve.meanSteps, step), curve.means.length - 1)] ?? null;
  }

  /** Restarts, checkpoints, breaks, values that are no number, and the ring of the chosen point. */
  #decorate() {
    const { ctx, bbox } = this.plot;
    const size = devicePixelRatio;
    const bottom = bbox.top + bbox.height;
    const x = (step) => this.plot.valToPos(step, "x", true);
    const y = (value) => this.plot.valToPos(value, "y", true);
    const inside = (at) => at >= bbox.left && at <= bbox.left + bbox.width;
    const upright = (at, colour, text) => {
      ctx.strokeStyle = colour;
      ctx.setLineDash([3 * size, 3 * size]);
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bottom);
      ctx.stroke();
      ctx.setLineDash([]);
      const left = at > bbox.left + bbox.width * 0.75;
      ctx.textAlign = left ? "right" : "left";
      ctx.fillText(text, at + (left ? -6 : 6) * size, bbox.top + 12 * size);
    };
    ctx.save();
    ctx.font = `${11 * size}px ${this.font}`;
    ctx.lineWidth = size;
    const own = this.drawn.filter((one) => one.own);
    const { words, broken } = this.card;
    for (const curve of own) {
      const begins = x(curve.steps[0]);
      if (curve.attempt > 1 && !broken.includes(curve.attempt - 1) && inside(begins)) {
        ctx.fillStyle = this.colours.text;
        upright(begins, this.colours.text, words.attempt.replace("{attempt}", curve.attempt));
      }
      const ends = x(curve.steps.at(-1));
      if (!broken.includes(curve.attempt) || !inside(ends)) continue;
      ctx.fillStyle = this.colours.redText;
      upright(ends, this.colours.red, words.broke.replace("{attempt}", curve.attempt));
      const last = curve.values.findLast((value) => value !== null);
      if (last !== undefined) disc(ctx, ends, y(last), 4 * size, this.colours.red);
    }
    ctx.fillStyle = this.colours[this.sources.find((one) => one.own)?.colour] ?? this.colours.text;
    for (const at of [...this.card.saves].map(x).filter(inside)) triangle(ctx, at, bottom, 4.5 * size, 1);
    ctx.fillStyle = this.colours.red;
    for (const { odd: found } of this.drawn) {
      for (const { step, kinds } of found) {
        const at = x(step);
        if (!inside(at)) continue;
        if (kinds & NAN) ctx.fillRect(at - size, bbox.top, 2 * size, bbox.height);
        if (kinds & INFINITE) triangle(ctx, at, bbox.top + 9 * size, 4.5 * size, 1);
        if (kinds & MINUS_INFINITE) triangle(ctx, at, bottom - 9 * size, 4.5 * size, -1);
      }
    }
    this.#ring(x, y, inside, size);
    ctx.restore();
  }

  #ring(x, y, inside, size) {
    const point = this.card.marked && this.own?.nearest(this.card.marked.step);
    if (!point || !inside(x(point.step))) return;
    const { ctx, bbox } = this.plot;
    disc(ctx, x(point.step), point.value === null ? bbox.top + 6 * size : y(point.value), 5 * size, this.colours.ground);
    ctx.lineWidth = 2 * size;
    ctx.strokeStyle = this.colours["--series-1"];
    ctx.stroke();
  }
}

/** What a value is that is no number. */
export function odd(kinds) {
  if (kinds & INFINITE) return "∞";
  return kinds & MINUS_INFINITE ? "−∞" : "NaN";
}

function disc(ctx, x, y, radius, colour) {
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fillStyle = colour;
  ctx.fill();
}

function triangle(ctx, x, bottom, size, up) {
  ctx.beginPath();
  ctx.moveTo(x, bottom - 2 * size * up);
  ctx.lineTo(x + size, bottom);
  ctx.lineTo(x - size, bottom);
  ctx.fill();
}

export function line(tag, text, name = "") {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  return element;
}
