// The log card: the newest lines as they come, older ones from what is kept, at most 5,000 of them in the page.

import { askFor } from "./lib/asking.js";
import { Lines, shown } from "./lib/lines.js";
import { Incoming } from "./lib/live-lines.js";
import { wholes } from "./lib/place.js";
import { LogChoices } from "./logchoices.js";
import { LogFind } from "./logfind.js";
import { Rows } from "./logrows.js";
import { LogSpan } from "./logspan.js";
import { LogTools } from "./logtools.js";

const PAGE_LINES = 1000;
const NEAR_EDGE_PX = 24;
const LINE_PX = 20;
const ENDS = ["succeeded", "failed", "stopped"];

export class LogCard {
  /**
   * @param {HTMLElement} card
   * @param {{place: object, keep: (o: object) => void, onPick: (step: number, attempt: number) => void,
   *          onLines: (lines: object[]) => void}} page
   *
   * The card's data-by says who a line is from: its rank, or its pod where there are no ranks.
   */
  constructor(card, page) {
    this.card = card;
    this.page = page;
    this.words = JSON.parse(document.getElementById("log-words").textContent);
    this.box = card.querySelector("#log");
    this.note = card.querySelector("#log-note");
    this.olderButton = card.querySelector("#log-older");
    this.followButton = card.querySelector("#log-follow");
    this.newerCount = card.querySelector("#log-newer");
    this.lines = new Lines();
    this.incoming = new Incoming(this.lines.cap);
    this.rows = new Rows(card.querySelector("#log-rows"), {
      byPod: card.dataset.by === "pod",
      elsewhere: card.dataset.elsewhere,
      words: this.words,
      isFound: (line) => this.find.isFound(line),
      inPlace: (change) => this.#inPlace(change),
    });
    this.screenful = 0; // rows that the box is high enough for
    this.following = true;
    this.live = false; // whether what is shown ends where `incoming` begins
    this.reach = 0; // the last line that was looked at, shown or not
    this.before = null; // what to ask for older lines with; null where there are none
    this.newer = 0;
    this.top = 0;
    this.asked = 0; // pages asked for; only the answer to the last one counts
    this.picked = null;
    this.find = new LogFind(this);
    this.choices = new LogChoices(this);
    this.span = new LogSpan(this);
    this.tools = new LogTools(this);
    this.#listen();
  }

  /** Show the newest lines, or a line that a link named; resolves to the place from which the socket goes on. */
  async open(line) {
    const [number] = wholes(line);
    if (number !== undefined && (await this.goTo({ line: number }))) {
      if (location.hash !== "#log") this.card.scrollIntoView({ block: "center" });
      return null;
    }
    const answer = await this.load();
    if (line && number === undefined) this.find.say(this.words.noLine);
    return answer?.cursor ?? null;
  }

  /**
   * Read a page anew: the newest lines, or those around one ({line}, {at}, {step}). Resolves to the answer, null where
   * there was none.
   */
  async load(where = {}) {
    const answer = await this.ask({ limit: PAGE_LINES, ...where });
    if (!answer) {
      this.live ||= !this.lines.all.length; // the socket's lines are better than none
      if (this.card.classList.contains("no-answer")) this.find.retry(() => this.load(where));
      return null;
    }
    this.lines.clear();
    this.rows.clear();
    this.unpick();
    this.before = answer.before;
    this.#takeNewer(answer);
    this.#showEdges(answer.notice);
    if (Object.keys(where).length) this.#follow(false);
    else this.#toEnd();
    this.find.told(answer.searched);
    return answer;
  }

  /** Lines that the socket brought. */
  add(frames) {
    const heard = this.incoming.add(Lines.of(frames), (line) => shown(line, this.#wanted()));
    const lines = heard.filter((line) => !("gap" in line));
    this.page.onLines(lines);
    if (!this.following) this.#count(lines.filter((line) => shown(line, this.#wanted())).length);
    if (!this.following && this.incoming.skipped) this.live = false;
    this.#planDrawing();
  }

  /** Lines went by that were not sent: say so. They are kept, where their number is known. */
  addGap(count) {
    if (count !== null) return; // the numbers of the lines that come next say it
    this.incoming.to = null; // the count may have begun anew
    this.incoming.lines.push({ gap: null });
    this.#planDrawing();
  }

  /** Go to what was printed at a step. */
  async showStep(step, attempt = null) {
    const near = this.lines.atStep(step, attempt);
    if (near?.step === step) return this.pick(near);
    await this.goTo({ step });
  }

  /** Read the lines around one and pick it; resolves to whether it is there. */
  async goTo(where) {
    const answer = await this.load(where);
    if (!answer) return false;
    const line = this.lines.byNumber(answer.at) ?? this.lines.all.find(({ n }) => n > answer.at);
    if (answer.at === null || !line) {
      this.find.say("step" in where ? this.words.noStep.replace("{n}", this.rows.number.format(where.step)) : this.words.noLine);
      return false;
    }
    this.pick(line);
    return true;
  }

  /** Ask for lines; says what is wrong where none come, and resolves to null then. */
  async ask(parameters) {
    const mine = ++this.asked;
    this.box.setAttribute("aria-busy", "true");
    const asked = new URLSearchParams([...this.filters(), ...Object.entries(parameters)]);
    const { answer, fault } = await askFor(`${this.card.dataset.url}?${asked}`, this.words.failed);
    if (mine !== this.asked) return null;
    this.box.removeAttribute("aria-busy");
    this.card.classList.toggle("no-answer", Boolean(fault));
    this.find.fault(fault);
    this.#showEdges();
    return answer;
  }

  /** What is chosen, as the server is asked for it. */
  filters() {
    return [...this.choices.filters(), ...this.span.filters(), ...this.find.filters()];
  }

  /** Other lines are wanted: read them, around what was being read. */
  async reload() {
    this.incoming.drop();
    const here = this.following ? null : (this.picked ?? this.firstInSight());
    await this.load(here?.n ? { line: here.n } : {});
    const line = here?.n ? this.lines.all.find(({ n }) => n >= here.n) : null;
    if (line) this.bring(line);
  }

  async newest() {
    if (!this.live || this.incoming.skipped) await this.load();
    this.#follow(true);
    this.#planDrawing();
    this.#toEnd();
  }

  pause() {
    if (this.following) this.#follow(false);
  }

  pick(line, { scroll = true } = {}) {
    this.unpick();
    this.picked = line;
    this.rows.of(line)?.classList.add("picked");
    this.tools.showTools(line);
    this.page.keep({ line: line.n });
    if (scroll) this.bring(line);
  }

  bring(line) {
    const element = this.rows.of(line);
    if (!element) return;
    this.pause();
    const middle = element.getBoundingClientRect().top - this.box.getBoundingClientRect().top - this.box.clientHeight / 2;
    this.box.scrollTop += middle;
    this.top = this.box.scrollTop;
  }

  lineOf(element) {
    return element ? this.lines.byId(Number(element.dataset.id)) : undefined;
  }

  #listen() {
    this.box.addEventListener("scroll", () => this.#scrolled());
    this.box.addEventListener("click", (event) => this.#clicked(event));
    // The end moves without a new line too: lines wrap anew, a font comes, a button above appears.
    const end = new ResizeObserver(() => {
      this.screenful = Math.ceil(this.box.clientHeight / LINE_PX) + 1;
      if (this.following) this.#toEnd();
    });
    end.observe(this.box);
    end.observe(this.rows.parent);
    this.followButton.addEventListener("click", () => (this.following ? this.pause() : this.newest()));
    this.olderButton.addEventListener("click", () => this.older());
    document.body.addEventListener("back-online", () => this.card.classList.contains("no-answer") && this.load());
  }

  // --- drawing ---

  #wanted() {
    return { ...this.choices.filter, ...this.span.span, test: this.find.test };
  }

  #planDrawing() {
    if (this.planned || !this.following || !this.live) return;
    this.planned = requestAnimationFrame(() => {
      this.planned = null;
      this.#draw();
    });
  }

  #draw() {
    if (!this.following || !this.live) return;
    const waiting = this.incoming.take();
    if (this.incoming.skipped) this.#startOver();
    this.#append(waiting);
    this.#toEnd();
    this.#showEdges();
    this.reach = Math.max(this.reach, this.incoming.to ?? 0);
  }

  /** More came than the page keeps: what was shown does not join what is drawn now. */
  #startOver() {
    this.incoming.skipped = false;
    this.lines.clear();
    this.rows.clear();
    this.before = String(this.incoming.from);
  }

  #append(lines) {
    const { added, gone } = this.lines.append(lines);
    this.rows.append(added, this.screenful);
    this.rows.remove(gone);
    if (this.lines.all.length >= this.lines.cap) this.before = String(this.lines.first);
  }

  #toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
    this.top = this.box.scrollTop;
  }

  #follow(on) {
    this.following = on;
    this.followButton.setAttribute("aria-pressed", String(on));
    this.newer = on ? 0 : this.newer;
    this.#count(0);
  }

  #count(more) {
    this.newer += more;
    this.newerCount.textContent = this.newer ? this.words.newer.replace("{n}", this.rows.number.format(this.newer)) : "";
  }

  #showEdges(notice) {
    const none = !this.lines.all.length;
    const busy = this.box.getAttribute("aria-busy") === "true";
    const failed = this.card.classList.contains("no-answer");
    const filtered = this.filters().length > 0;
    const { loading, noneFits } = this.words;
    this.note.hidden = !none;
    if (none) this.note.textContent = busy ? loading : failed ? "" : filtered ? noneFits : this.note.dataset.none;
    this.olderButton.hidden = !this.before || busy;
    if (notice !== undefined) this.card.querySelector("#log-notice").textContent = notice ?? "";
    const phase = this.card.dataset.by === "pod" ? "" : document.getElementById("state")?.dataset.phase;
    this.card.querySelector("#log-end").hidden = none || !this.live || !ENDS.includes(phase);
  }

  // --- older and newer lines ---

  async older() {
    if (!this.before || this.box.getAttribute("aria-busy")) return;
    this.pause();
    const answer = await this.ask({ before: this.before, limit: PAGE_LINES });
    if (!answer) return;
    this.before = answer.before;
    const lines = Lines.of(answer.frames);
    this.page.onLines(lines.filter((line) => !("gap" in line)));
    this.#inPlace(() => {
      const { added, gone } = this.lines.prepend(lines);
      this.rows.prepend(added);
      this.rows.remove(gone);
      if (gone.length) {
        this.live = false;
        this.reach = this.lines.last;
      }
    });
    this.#showEdges(answer.notice);
    this.find.told(answer.searched);
  }

  /** Lines after those that are shown. */
  async more() {
    if (this.live || this.box.getAttribute("aria-busy")) return;
    const answer = await this.ask({ after: this.reach, limit: PAGE_LINES });
    if (!answer) return;
    this.#inPlace(() => this.#takeNewer(answer));
    this.#showEdges(answer.notice);
  }

  #takeNewer(answer) {
    const lines = Lines.of(answer.frames);
    this.page.onLines(lines.filter((line) => !("gap" in line)));
    this.#append(lines);
    this.reach = answer.searched ? answer.searched.to : (answer.last ?? answer.total);
    if (!answer.newer) this.reach = Math.max(this.reach, answer.total);
    this.#join();
  }

  /** Go on with what the socket brought, if it begins where the answer ended. */
  #join() {
    const { from, to } = this.incoming;
    this.live = to === null || from <= this.reach + 1;
    if (!this.live) return;
    this.incoming.lines = this.incoming.lines.filter((line) => "gap" in line || line.n > this.reach);
    this.incoming.skipped = false;
    this.incoming.to = Math.max(to ?? 0, this.reach);
    this.incoming.from ??= this.reach + 1;
    this.#planDrawing();
  }

  /** Change the rows and leave what is being read where it is. */
  #inPlace(change) {
    const anchor = this.following ? null : this.rows.first(this.box.getBoundingClientRect().top);
    const was = anchor?.getBoundingClientRect().top;
    change();
    if (this.following) return this.#toEnd();
    if (anchor?.isConnected) this.box.scrollTop += anchor.getBoundingClientRect().top - was;
    this.top = this.box.scrollTop;
  }

  firstInSight() {
    const { top, bottom } = this.box.getBoundingClientRect();
    this.rows.show(top, bottom);
    return this.lineOf(this.rows.first(top)) ?? this.lines.all.find((line) => "n" in line);
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const atEnd = scrollHeight - scrollTop - clientHeight < NEAR_EDGE_PX;
    const up = scrollTop < this.top - 1;
    this.top = scrollTop;
    if (this.following) {
      if (!atEnd && up) this.#follow(false);
      if (this.following) return;
    } else if (atEnd && this.live) {
      this.#follow(true);
      this.#planDrawing();
    } else if (atEnd) {
      this.more();
    } else if (up && scrollTop < clientHeight && !this.find.filters().length) {
      this.older();
    }
    const { top, bottom } = this.box.getBoundingClientRect();
    this.rows.show(top, bottom);
  }

  // --- picking ---

  #clicked(event) {
    const row = event.target.closest(".log-line, .log-gap");
    const line = this.lineOf(row);
    if (!line) return;
    if (event.target.closest(".log-gap-show")) return this.goTo({ line: line.from });
    if (event.target.closest(".log-cut")) return this.#showAll(line, event.target);
    if ("gap" in line || event.target.closest("button, a") || !getSelection().isCollapsed) return;
    this.pick(line, { scroll: false });
    this.pause();
    if (line.step !== null) this.page.onPick(line.step, line.attempt);
  }

  async #showAll(line, button) {
    button.disabled = true;
    const url = this.card.dataset.lineUrl?.replace(/0$/, line.n);
    const response = line.look?.cut && url ? await fetch(url).catch(() => null) : null;
    if (response?.ok) this.rows.showAll(line, await response.text());
    else if (!line.look?.cut) this.rows.showAll(line, line.text);
    else {
      button.disabled = false;
      this.find.say(this.words.failed);
    }
  }

  unpick() {
    this.rows.of(this.picked)?.classList.remove("picked");
    this.tools.hideTools();
    this.picked = null;
  }
}
