// From when to when a log's lines are shown, by the reader's clock.

import { keepMoment, keptMoment, readSpan, typedMoment } from "./lib/span.js";

const SECOND = 1000;
const NOTHING = { since: null, until: null };

export class LogSpan {
  constructor(log) {
    this.log = log;
    const { card, page } = log;
    this.menu = card.querySelector("#log-span");
    this.told = card.querySelector("#log-span-told");
    this.form = card.querySelector("#log-span-form");
    const { lang, dataset } = document.documentElement;
    this.zone = dataset.zone;
    const day = { month: "numeric", day: "numeric" };
    const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
    this.clock = new Intl.DateTimeFormat(lang, { ...day, ...time, timeZone: this.zone });
    this.span = NOTHING;
    this.#restore(page.place);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.take()) this.menu.open = false;
    });
    this.form.addEventListener("reset", () => setTimeout(() => this.take()));
  }

  /** As the server is asked for it, in nanoseconds. */
  filters() {
    const { since, until } = this.span;
    return Object.entries({ since, until }).flatMap(([name, at]) => (at === null ? [] : [[name, `${at}000000`]]));
  }

  /** Show what is typed; whether it makes sense. */
  take() {
    const { since, until } = this.form.elements;
    const read = readSpan(since.value, until.value, { near: this.log.lines.lastAt ?? Date.now(), zone: this.zone });
    this.#say(read.faults);
    if (Object.keys(read.faults).length) return false;
    if (read.since === this.span.since && read.until === this.span.until) return true;
    this.span = { since: read.since, until: read.until };
    this.log.page.keep({ since: keepMoment(read.since), until: keepMoment(read.until) });
    this.#show();
    this.log.reload();
    return true;
  }

  #restore({ since, until }) {
    const span = { since: keptMoment(since), until: keptMoment(until) };
    const faults = {};
    for (const name of ["since", "until"]) {
      if (!Number.isNaN(span[name])) continue;
      faults[name] = "time";
      span[name] = null;
      this.form.elements[name].value = { since, until }[name];
    }
    if (span.since !== null && span.until !== null && span.until <= span.since) faults.until = "order";
    else this.span = span;
    this.#show();
    this.#say(faults);
    this.menu.open = Object.keys(faults).length > 0;
  }

  #show() {
    const { since, until } = this.span;
    const { words } = this.log;
    const { elements } = this.form;
    if (since !== null) elements.since.value = typedMoment(since, this.zone);
    if (until !== null) elements.until.value = typedMoment(until - SECOND, this.zone);
    let told = "";
    if (since !== null && until !== null) told = this.clock.formatRange(since, until - SECOND);
    else if (since !== null) told = words.since.replace("{t}", this.clock.format(since));
    else if (until !== null) told = words.until.replace("{t}", this.clock.format(until - SECOND));
    this.told.textContent = told;
    this.menu.classList.toggle("chosen", Boolean(told));
  }

  #say(faults) {
    const { words } = this.log;
    for (const name of ["since", "until"]) {
      const field = this.form.elements[name];
      const said = { time: words.badTime, order: words.badOrder }[faults[name]] ?? "";
      field.setAttribute("aria-invalid", String(Boolean(said)));
      this.form.querySelector(`#log-${name}-fault`).textContent = said;
    }
    const wrong = Object.keys(faults)[0];
    if (wrong && this.menu.open) this.form.elements[wrong].focus();
  }
}
