// The chart card: the curves that a job has, each in a picture of its own over the same steps; any stretch of them is
// read again exactly for the pixels it is drawn on. Other jobs' curves can stand beside.

import { line, odd, Panel } from "./chartpanel.js";
import { offerJobs } from "./lib/chartcompare.js";
import { savePicture } from "./lib/chartpicture.js";
import { decode } from "./lib/columns.js";
import { Curves } from "./lib/curves.js";
import { share } from "./lib/place.js";
import { Throttle } from "./lib/throttle.js";

const DRAW_MS = 250;
const RELOAD_MS = 2000;
const POINTS_A_PIXEL = 8;
const TABLE_ROWS = 500;
const MOST_BESIDE = 4;
const CHECKPOINT = "checkpoint";
const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5"];

export class LossChart {
  /**
   * @param {HTMLElement} card
   * @param {{place: object, keep: (o: object) => void}} page
   *
   * A point that is chosen is told as the event `step` on the page's root, with `detail` {step, attempt}.
   */
  constructor(card, page) {
    this.card = card;
    this.page = page;
    this.words = card.dataset;
    this.jobs = this.words.job.slice(0, this.words.job.lastIndexOf("/"));
    this.box = card.querySelector("#chart");
    this.message = card.querySelector("#chart-empty");
    this.table = card.querySelector("#loss-table");
    this.series = [];
    /** @type {Map<string, Panel>} */
    this.panels = new Map();
    this.saves = new Set();
    this.passed = new Set();
    this.marked = null;
    this.weight = share(page.place.smooth, 0.6);
    this.log = page.place.scale === "log";
    this.shown = (page.place.curves ?? "").split(",").filter(Boolean);
    const [from, to] = (page.place.steps ?? "").split("-").map(Number);
    this.zoom = to > from ? [from, to] : null;
    this.beside = (page.place.with ?? "").split(",").filter(Boolean).slice(0, MOST_BESIDE).map((id) => ({ id, name: id }));
    this.asked = 0;
    this.unread = false;
    const number = new Intl.NumberFormat(document.documentElement.lang, { maximumSignificantDigits: 5 });
    const tiny = new Intl.NumberFormat(document.documentElement.lang, { notation: "scientific", maximumSignificantDigits: 4 });
    const written = (most) => (value) =>
      (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= most) ? tiny : number).format(value);
    this.format = written(1e9);
    this.brief = written(1e6); // what fits beside an axis
    this.steps = new Intl.NumberFormat(document.documentElement.lang);
    this.soon = new Throttle(() => this.#draw(), { every: DRAW_MS });
    this.anew = new Throttle(() => this.load(), { every: RELOAD_MS });
    this.#listen();
  }

  /** Read which curves there are, and what is shown of them for the pixels there are. */
  async load() {
    const turn = ++this.asked;
    try {
      this.series = await this.#json(`${this.words.job}/series`);
      if (turn !== this.asked) return;
      this.#arrange();
      const width = Math.max(200, Math.round(this.box.clientWidth - 70));
      const [marks] = await Promise.all([
        this.#json(`${this.words.job}/points?series=${CHECKPOINT}&width=2000`),
        ...[...this.panels.values()].map((panel) => this.#fill(panel, width, turn)),
      ]);
      for (const { steps } of marks.attempts) for (const step of steps) this.saves.add(step);
    } catch {
      if (turn !== this.asked) return;
      this.unread = true; // what is drawn stays; it is asked for again when the connection is back
      this.soon.add("unread");
      return;
    }
    if (turn !== this.asked) return;
    this.unread = false;
    this.#draw();
  }

  addFrames(frames) {
    const known = new Set(this.series.map(({ name }) => name));
    for (const { src, points } of frames) {
      for (const [series, step, value] of points) {
        if (series === CHECKPOINT) this.saves.add(step);
        else if (!known.has(series) && !this.passed.has(series)) {
          this.passed.add(series); // asked for once: some marks are kept like points and are no curves
          this.anew.add("series");
        }
        const inside = !this.zoom || (step >= this.zoom[0] && step <= this.zoom[1]);
        if (inside) this.panels.get(series)?.own?.add(src.attempt, step, value);
      }
    }
    const most = POINTS_A_PIXEL * this.box.clientWidth;
    if ([...this.panels.values()].some((panel) => panel.size > most)) this.anew.add("points");
    this.soon.add("points");
  }

  addSaves(steps) {
    for (const step of steps) this.saves.add(step);
    this.soon.add("saves");
  }

  /** Ring the point of a step. */
  mark(step, attempt = null) {
    this.marked = { step, attempt };
    for (const panel of this.panels.values()) panel.plot?.redraw(false);
  }

  // --- what the panels ask ---

  zoomed() {
    return this.zoom;
  }

  /** The attempts that broke, as the head of the page says. */
  get broken() {
    return (document.getElementById("state")?.dataset.broke ?? "").split(" ").filter(Boolean).map(Number);
  }

  onZoom(from, to) {
    const start = Math.max(0, Math.ceil(from));
    const stop = Math.floor(to);
    if (stop <= start) return;
    this.#zoomTo([start, stop]);
  }

  onReset() {
    this.#zoomTo(null);
  }

  onPick(step, attempt) {
    this.mark(step, attempt);
    this.card.closest("[data-topic]").dispatchEvent(new CustomEvent("step", { detail: { step, attempt } }));
  }

  say(text) {
    this.card.querySelector("#chart-said").textContent = text;
  }

  onKey(event, panel) {
    if (!panel.plot || event.ctrlKey || event.metaKey || event.altKey || event.target !== panel.box) return;
    const { min, max } = panel.plot.scales.x;
    const at = panel.at ?? Math.round((min + max) / 2);
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move) {
      panel.at = panel.own?.beside(at, move) ?? at;
      panel.point(panel.at);
    } else if (event.key === "Home" || event.key === "End") {
      panel.at = panel.own?.nearest(event.key === "Home" ? min : max)?.step ?? at;
      panel.point(panel.at);
    } else if (event.key === "+" || event.key === "=") {
      const half = (max - min) / 4;
      this.onZoom(at - half, at + half);
    } else if (event.key === "-") {
      this.onZoom(min - (max - min) / 2, max + (max - min) / 2);
    } else if (event.key === "0" || event.key === "Escape") {
      this.onReset();
    } else if (event.key === "Enter") {
      const point = panel.own?.nearest(at);
      if (point) this.onPick(point.step, point.attempt);
    } else {
      return;
    }
    event.preventDefault();
  }

  // --- reading ---

  async #json(url) {
    const answer = await fetch(url, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer.json();
  }

  async #fill(panel, width, turn) {
    const asked = new URLSearchParams({ series: panel.series.name, width });
    if (this.zoom) {
      asked.set("from", this.zoom[0]);
      asked.set("to", this.zoom[1]);
    }
    const found = await Promise.all(
      this.#jobs().map(async (job) => {
        const answer = await fetch(`${job.url}/points?${asked}`, { headers: { Accept: "application/octet-stream" } });
        if (!answer.ok && job.own) throw new Error(`${answer.status}`);
        const curves = new Curves();
        if (answer.ok) curves.load(decode(await answer.arrayBuffer()).attempts);
        return { ...job, curves };
      }),
    );
    if (turn === this.asked) panel.sources = found;
  }

  #jobs() {
    const own = { job: this.words.id, url: this.words.job, label: this.words.name, colour: COLOURS[0], own: true };
    const others = this.beside.map(({ id, name }, index) => ({
      job: id, url: `${this.jobs}/${encodeURIComponent(id)}`, label: name, colour: COLOURS[index + 1], own: false,
    }));
    return [own, ...others];
  }

  // --- drawing ---

  /** One panel for each curve that is chosen, in the order in which they are offered. */
  #arrange() {
    const names = this.series.map(({ name }) => name);
    let chosen = this.shown.filter((name) => names.includes(name));
    if (!chosen.length) chosen = names.slice(0, 1);
    const wanted = this.series.filter(({ name }) => chosen.includes(name));
    const order = wanted.map(({ name }) => name).join();
    if (order !== [...this.panels.keys()].join()) {
      for (const panel of this.panels.values()) panel.remove();
      this.panels.clear();
      for (const [index, one] of wanted.entries()) {
        const box = document.createElement("div");
        this.box.append(box);
        this.panels.set(one.name, new Panel(box, one, this, index === 0));
      }
    }
    for (const one of wanted) this.panels.get(one.name).name(one);
    this.#offer(chosen);
    this.#legend();
  }

  #offer(chosen) {
    const group = this.card.querySelector("#chart-series");
    group.hidden = this.series.length < 2;
    group.replaceChildren(
      ...this.series.map(({ name, title }) => {
        const button = line("button", title, "chip");
        button.type = "button";
        button.setAttribute("aria-pressed", String(chosen.includes(name)));
        button.addEventListener("click", () => {
          const now = chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name];
          if (!now.length) return;
          this.shown = now;
          this.page.keep({ curves: now.join(",") });
          this.load().then(() => group.querySelectorAll("button")[this.series.findIndex((one) => one.name === name)]?.focus());
        });
        return button;
      }),
    );
  }

  #legend() {
    const list = this.card.querySelector("#chart-beside");
    list.hidden = !this.beside.length;
    list.replaceChildren(
      ...this.#jobs().map(({ job, label, own }, index) => {
        const item = line("li", "", `key key-${index + 1}`);
        item.append(line("span", label, "cut"));
        if (!own) {
          const away = line("button", "×", "key-away");
          away.type = "button";
          away.setAttribute("aria-label", this.words.away.replace("{name}", label));
          away.addEventListener("click", () => this.#compare(this.beside.filter(({ id }) => id !== job)));
          item.append(away);
        }
        return item;
      }),
    );
  }

  #say(state) {
    this.message.hidden = state === null;
    for (const part of this.message.children) part.hidden = part.dataset.when !== state;
  }

  #draw(anew = false) {
    const panels = [...this.panels.values()];
    this.#say(panels.some((panel) => panel.size) ? null : this.unread ? "broken" : "none");
    for (const panel of panels) panel.draw(anew);
    const drawn = panels.flatMap((panel) => panel.drawn ?? []).filter((one) => one.own);
    const [, past, save, broke, odd] = this.card.querySelectorAll("#chart-keys .key");
    past.hidden = !drawn.some((one) => !one.newest);
    save.hidden = this.saves.size === 0;
    broke.hidden = !this.broken.some((attempt) => drawn.some((one) => one.attempt === attempt));
    odd.hidden = !drawn.some((one) => one.odd.length);
    this.#fillTable();
  }

  #zoomTo(steps) {
    this.zoom = steps;
    this.page.keep({ steps: steps ? steps.join("-") : "" });
    this.#showZoom();
    for (const panel of this.panels.values()) panel.at = null;
    this.load();
  }

  #showZoom() {
    const bar = this.card.querySelector("#chart-zoom");
    bar.hidden = !this.zoom;
    const [from, to] = this.zoom ?? [0, 0];
    bar.querySelector("output").textContent = this.words.range.replace("{from}", this.steps.format(from)).replace("{to}", this.steps.format(to));
    const table = this.card.querySelector("#export-csv");
    const asked = new URLSearchParams(this.zoom ? { from, to } : {});
    table.href = `${this.words.job}/points.csv${asked.size ? `?${asked}` : ""}`;
  }

  // --- what stands around it ---

  #listen() {
    this.#listenToScale();
    const range = this.card.querySelector("#smoothing");
    const output = this.card.querySelector("output[for]");
    const show = () => {
      output.textContent = this.weight.toFixed(2);
    };
    range.value = this.weight;
    range.addEventListener("input", () => {
      const before = this.weight > 0;
      this.weight = Number(range.value);
      this.page.keep({ smooth: this.weight });
      show();
      if (before !== this.weight > 0) this.#draw(true);
      else this.soon.add("smooth");
    });
    show();
    const toggle = this.card.querySelector("#loss-table-toggle");
    toggle.addEventListener("click", () => {
      this.table.hidden = !this.table.hidden;
      toggle.setAttribute("aria-expanded", String(!this.table.hidden));
      this.#fillTable();
    });
    this.card.querySelector("#chart-reset").addEventListener("click", () => this.onReset());
    this.card.querySelector("#chart-again").addEventListener("click", () => {
      this.#say("loading");
      this.load();
    });
    this.card.querySelector("#export-png").addEventListener("click", () => savePicture(this));
    offerJobs(this.card.querySelector("#chart-compare"), this.jobs, (job) => {
      const known = job.id === this.words.id || this.beside.some(({ id }) => id === job.id);
      if (!known && this.beside.length < MOST_BESIDE) this.#compare([...this.beside, job]);
    });
    if (this.beside.length) this.#nameBeside();
    this.#showZoom();
    let width = this.box.clientWidth;
    new ResizeObserver(() => {
      if (this.box.clientWidth === width) return;
      width = this.box.clientWidth;
      for (const panel of this.panels.values()) panel.resize();
      this.anew.add("width");
    }).observe(this.box);
    new MutationObserver(() => this.#draw(true)).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
  }

  #listenToScale() {
    const scales = [...this.card.querySelectorAll("[data-scale]")];
    const show = () => {
      for (const button of scales) button.setAttribute("aria-pressed", String((button.dataset.scale === "log") === this.log));
    };
    for (const button of scales) {
      button.addEventListener("click", () => {
        this.log = button.dataset.scale === "log";
        this.page.keep({ scale: this.log ? "log" : "" });
        show();
        this.#draw(true);
      });
    }
    show();
  }

  async #nameBeside() {
    for (const job of this.beside) {
      const gone = ({ message }) => (message === "404" ? this.words.gone.replace("{name}", job.id) : job.id);
      job.name = await this.#json(`${this.jobs}/${encodeURIComponent(job.id)}`).then(({ name }) => name, gone);
    }
    this.#legend();
  }

  #compare(jobs) {
    this.beside = jobs;
    this.page.keep({ with: jobs.map(({ id }) => id).join(",") });
    this.load();
  }

  /** The newest values as a table, for whoever cannot see the curve. */
  #fillTable() {
    if (this.table.hidden) return;
    const rows = [];
    for (const panel of this.panels.values()) {
      const most = rows.length + TABLE_ROWS;
      for (const { label, attempt, steps, values, odd: found } of (panel.drawn ?? []).toReversed()) {
        const kinds = new Map(found.map((one) => [one.step, one.kinds]));
        for (let index = steps.length - 1; index >= 0 && rows.length < most; index--) {
          const name = this.beside.length ? `${panel.series.title} · ${label}` : panel.series.title;
          const value = values[index] === null ? odd(kinds.get(steps[index])) : this.format(values[index]);
          const row = document.createElement("tr");
          row.append(line("td", name), ...[attempt, this.steps.format(steps[index]), value].map((text) => line("td", text, "num")));
          rows.push(row);
        }
      }
    }
    this.table.querySelector("tbody").replaceChildren(...rows);
  }
}
