// The loss card: one curve for each attempt, the newest in colour; the raw values faint behind their mean.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { Curves, lowerBound, number } from "./lib/curves.js";

const DRAW_MS = 250;
const MOST_POINTS = 20000;
const TABLE_ROWS = 500;

export class LossChart {
  /** @param {HTMLElement} card @param {{place: object, keep: (o: object) => void, onPick: (step: number, attempt: number) => void}} page */
  constructor(card, page) {
    this.card = card;
    this.page = page;
    this.box = card.querySelector("#chart");
    this.empty = card.querySelector("#chart-empty");
    this.table = card.querySelector("#loss-table");
    this.curves = new Curves();
    this.saves = new Set();
    this.weight = Number(page.place.smooth ?? 0.6);
    this.log = page.place.scale === "log";
    this.marked = null;
    this.planned = false;
    this.number = new Intl.NumberFormat(document.documentElement.lang, { maximumSignificantDigits: 5 });
    this.tip = document.createElement("div");
    this.tip.className = "chart-tip";
    this.tip.hidden = true;
    this.box.append(this.tip);
    this.#listen();
  }

  /** Read the whole curve, thinned to the width of the card. */
  async load() {
    try {
      const width = Math.max(300, Math.round(this.box.clientWidth));
      const answer = await fetch(`${this.card.dataset.url}?series=loss&width=${width}`, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      this.curves.load((await answer.json()).attempts);
    } catch {
      return; // what is drawn stays; it is asked for again when the connection is back
    }
    this.#soon();
  }

  addFrames(frames) {
    for (const { src, points } of frames) {
      for (const [series, step, value] of points) {
        if (series === "loss") this.curves.add(src.attempt, step, value);
      }
    }
    if (this.curves.size > MOST_POINTS) this.load();
    else this.#soon();
  }

  addSaves(steps) {
    for (const step of steps) this.saves.add(step);
    this.#soon();
  }

  /** Ring the point of a step. */
  mark(step, attempt = null) {
    this.marked = { step, attempt };
    this.plot?.redraw(false);
  }

  #listen() {
    const range = this.card.querySelector("#smoothing");
    const output = this.card.querySelector("output");
    range.value = this.weight;
    output.textContent = this.weight.toFixed(2);
    range.addEventListener("input", () => {
      this.weight = Number(range.value);
      output.textContent = this.weight.toFixed(2);
      this.page.keep({ smooth: this.weight });
      this.#soon();
    });
    const scales = [...this.card.querySelectorAll("[data-scale]")];
    const show = () => {
      for (const button of scales) button.setAttribute("aria-pressed", String((button.dataset.scale === "log") === this.log));
    };
    for (const button of scales) {
      button.addEventListener("click", () => {
        this.log = button.dataset.scale === "log";
        this.page.keep({ scale: this.log ? "log" : "" });
        show();
        this.#build();
      });
    }
    show();
    const toggle = this.card.querySelector("#loss-table-toggle");
    toggle.addEventListener("click", () => {
      this.table.hidden = !this.table.hidden;
      toggle.setAttribute("aria-expanded", String(!this.table.hidden));
      this.#fillTable();
    });
    new ResizeObserver(() => this.plot?.setSize(this.#size())).observe(this.box);
    new MutationObserver(() => this.#build()).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
  }

  #soon() {
    if (this.planned) return;
    this.planned = true;
    setTimeout(() => {
      this.planned = false;
      this.#draw();
    }, this.plot ? DRAW_MS : 0);
  }

  #draw() {
    const drawn = this.curves.drawn(this.weight);
    this.empty.hidden = this.curves.size > 0;
    this.drawn = drawn;
    const [, past, save, broke] = this.card.querySelectorAll(".key");
    past.hidden = drawn.length < 2;
    save.hidden = this.saves.size === 0;
    broke.hidden = !this.#broken().length;
    if (!drawn.length) return;
    const shape = drawn.map(({ attempt }) => attempt).join();
    if (!this.plot || this.shape !== shape) this.#build();
    else this.plot.setData(this.#data(drawn));
    this.#fillTable();
  }

  #data(drawn) {
    return uPlot.join(drawn.map(({ steps, values, means }) => [steps, values.map((v) => this.#fit(v)), means.map((v) => this.#fit(v))]));
  }

  /** A logarithm takes no zero and nothing below. */
  #fit(value) {
    return this.log && value !== null && value <= 0 ? null : value;
  }

  #size() {
    return { width: Math.max(200, this.box.clientWidth - 24), height: this.box.clientHeight - 12 };
  }

  #build() {
    const drawn = this.curves.drawn(this.weight);
    if (!drawn.length) return;
    this.shape = drawn.map(({ attempt }) => attempt).join();
    this.plot?.destroy();
    const css = getComputedStyle(document.documentElement);
    // A light-dark() token resolves only where it is used as a colour.
    const probe = document.createElement("span");
    this.box.append(probe);
    const colour = (name) => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    this.colours = { now: colour("--series-1"), past: colour("--series-past"), grid: colour("--grid"), text: colour("--text-3"), red: colour("--red-solid"), ground: colour("--surface") };
    probe.remove();
    const axis = { stroke: this.colours.text, grid: { stroke: this.colours.grid, width: 1 }, ticks: { show: false }, font: `11px ${css.getPropertyValue("--sans")}` };
    const series = drawn.flatMap(({ attempt }) => {
      const stroke = attempt === this.curves.newest ? this.colours.now : this.colours.past;
      return [
        { stroke, width: 1, alpha: this.weight > 0 ? 0.35 : 1, points: { show: false }, spanGaps: true },
        { stroke, width: 2, points: { show: false }, spanGaps: true },
      ];
    });
    this.plot = new uPlot(
      {
        ...this.#size(),
        scales: { x: { time: false }, y: { distr: this.log ? 3 : 1 } },
        series: [{}, ...series],
        axes: [
          { ...axis, size: 28, values: (_, steps) => steps.map((step) => this.number.format(step)) },
          { ...axis, size: 52, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : this.number.format(tick))) },
        ],
        cursor: { points: { show: false }, drag: { x: true, y: false } },
        legend: { show: false },
        hooks: { setCursor: [() => this.#point()], draw: [() => this.#decorate()] },
      },
      this.#data(drawn),
      this.box,
    );
    this.plot.over.addEventListener("click", () => this.#picked());
    this.plot.over.addEventListener("mouseleave", () => {
      this.tip.hidden = true;
    });
  }

  #under() {
    const { left, idx } = this.plot.cursor;
    return left < 0 || idx === null ? null : this.curves.nearest(this.plot.posToVal(left, "x"));
  }

  #point() {
    const point = this.#under();
    this.tip.hidden = point === null;
    if (!point) return;
    const { step, attempt, value } = point;
    const words = this.card.dataset;
    const shown = (one) => (one === null || one === undefined ? "NaN" : this.number.format(one));
    const lines = [line("b", words.step.replace("{step}", this.number.format(step)))];
    lines.push(line("div", words.tip.replace("{value}", shown(value)).replace("{mean}", shown(this.#mean(attempt, step)))));
    if (this.curves.attempts.size > 1) lines.push(line("div", words.attempt.replace("{attempt}", attempt), "quiet"));
    this.tip.replaceChildren(...lines);
    const { left, top } = this.plot.cursor;
    const right = left > this.plot.over.clientWidth - 190;
    this.tip.style.left = `${left + this.plot.over.offsetLeft + (right ? -170 : 24)}px`;
    this.tip.style.top = `${Math.max(4, top)}px`;
  }

  #mean(attempt, step) {
    const curve = this.drawn?.find((one) => one.attempt === attempt);
    return curve?.means[lowerBound(curve.steps, step)];
  }

  /** The attempts that broke, as the head of the page says, each with its last point. */
  #broken() {
    const told = document.getElementById("state")?.dataset.broke ?? "";
    return told.split(" ").filter(Boolean).map(Number).flatMap((attempt) => {
      const curve = this.drawn?.find((one) => one.attempt === attempt);
      return curve?.steps.length ? [{ attempt, step: curve.steps.at(-1), value: curve.means.findLast((one) => one !== null) }] : [];
    });
  }

  #picked() {
    const point = this.#under();
    if (!point) return;
    this.mark(point.step, point.attempt);
    this.page.onPick(point.step, point.attempt);
  }

  /** Checkpoints, values that are no number, and the ring of the chosen point. */
  #decorate() {
    const { ctx, bbox } = this.plot;
    const size = devicePixelRatio;
    const x = (step) => this.plot.valToPos(step, "x", true);
    const inside = (at) => at >= bbox.left && at <= bbox.left + bbox.width;
    const bottom = bbox.top + bbox.height;
    ctx.save();
    ctx.fillStyle = this.colours.now;
    for (const at of [...this.saves].map(x).filter(inside)) triangle(ctx, at, bottom, 4.5 * size);
    ctx.fillStyle = this.colours.red;
    for (const { attempt, step, value } of this.#broken()) {
      const at = x(step);
      if (!inside(at) || value === undefined) continue;
      ctx.save();
      ctx.strokeStyle = this.colours.red;
      ctx.setLineDash([3 * size, 3 * size]);
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bottom);
      ctx.stroke();
      ctx.restore();
      ctx.beginPath();
      ctx.arc(at, this.plot.valToPos(value, "y", true), 4 * size, 0, 2 * Math.PI);
      ctx.fill();
      ctx.font = `${11 * size}px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`;
      ctx.textAlign = "left";
      ctx.textBaseline = "alphabetic";
      ctx.fillText(this.card.dataset.broke.replace("{attempt}", attempt), at + 6 * size, bbox.top + 12 * size);
    }
    for (const { odd } of this.curves.attempts.values()) {
      for (const at of odd.map(x).filter(inside)) ctx.fillRect(at - size, bbox.top, 2 * size, bbox.height);
    }
    const point = this.marked && this.curves.nearest(this.marked.step);
    if (point && point.value !== null && inside(x(point.step))) {
      ctx.beginPath();
      ctx.arc(x(point.step), this.plot.valToPos(point.value, "y", true), 5 * size, 0, 2 * Math.PI);
      ctx.fillStyle = this.colours.ground;
      ctx.fill();
      ctx.lineWidth = 2 * size;
      ctx.strokeStyle = this.colours.now;
      ctx.stroke();
    }
    ctx.restore();
  }

  /** The newest values as a table, for whoever cannot see the curve. */
  #fillTable() {
    if (this.table.hidden) return;
    const rows = [];
    for (const { attempt, steps, values } of this.curves.drawn(0).reverse()) {
      for (let index = steps.length - 1; index >= 0 && rows.length < TABLE_ROWS; index--) {
        const row = document.createElement("tr");
        for (const text of [attempt, this.number.format(steps[index]), number(values[index]) === null ? "NaN" : this.number.format(values[index])]) {
          const cell = document.createElement("td");
          cell.className = "num";
          cell.textContent = text;
          row.append(cell);
        }
        rows.push(row);
      }
    }
    this.table.querySelector("tbody").replaceChildren(...rows);
  }
}

function triangle(ctx, x, bottom, size) {
  ctx.beginPath();
  ctx.moveTo(x, bottom - 2 * size);
  ctx.lineTo(x + size, bottom);
  ctx.lineTo(x - size, bottom);
  ctx.fill();
}

function line(tag, text, name = "") {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  return element;
}
