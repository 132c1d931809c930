// Whose lines a log shows, and of which level.

import { wholes } from "./lib/place.js";

export class LogChoices {
  constructor(card) {
    this.log = card;
    this.level = card.card.querySelector("#log-level");
    this.rank = card.card.querySelector("#log-rank");
    const { rank, level } = card.page.place;
    const known = [...this.level.options].some(({ value }) => value === level);
    this.filter = { ranks: new Set(wholes(rank)), level: known ? level : "" };
    this.level.addEventListener("change", () => this.#choose({ level: this.level.value }));
    this.rank?.addEventListener("change", () => this.#choose({ ranks: new Set(this.rank.value ? [Number(this.rank.value)] : []) }));
    // The squares come anew when the gang gets its nodes: the card listens for them, and shows them what is chosen.
    card.card.addEventListener("click", ({ target }) => target.dataset.rank && this.#toggle(Number(target.dataset.rank)));
    document.body.addEventListener("htmx:oobAfterSwap", () => this.#show());
    this.#show();
  }

  /** As the server is asked for them. */
  filters() {
    const chosen = [...this.filter.ranks].map((rank) => ["rank", rank]);
    return this.filter.level ? [...chosen, ["level", this.filter.level]] : chosen;
  }

  #toggle(rank) {
    const ranks = new Set(this.filter.ranks);
    if (!ranks.delete(rank)) ranks.add(rank);
    this.#choose({ ranks });
  }

  #choose(changes) {
    this.filter = { ...this.filter, ...changes };
    const ranks = [...this.filter.ranks].sort((a, b) => a - b).join(",");
    this.log.page.keep({ rank: ranks, level: this.filter.level });
    this.#show();
    this.log.reload();
  }

  #show() {
    const { ranks, level } = this.filter;
    this.level.value = level;
    const squares = [...this.log.card.querySelectorAll("[data-rank]")];
    for (const square of squares) square.setAttribute("aria-pressed", String(ranks.has(Number(square.dataset.rank))));
    if (this.rank) this.#showRanks(squares.map(({ dataset }) => dataset.rank));
  }

  /** The list of views: all ranks merged, some of them, or one. */
  #showRanks(all) {
    const { words } = this.log;
    const { ranks } = this.filter;
    const options = [["", words.allRanks.replace("{all}", all.length)]];
    if (ranks.size > 1) options.push(["some", words.someRanks.replace("{n}", ranks.size).replace("{all}", all.length)]);
    const [only] = ranks;
    if (ranks.size === 1 && !all.includes(String(only))) options.push([only, `${words.rank} ${only}`]);
    options.push(...all.map((rank) => [rank, `${words.rank} ${rank}`]));
    this.rank.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
    this.rank.hidden = all.length < 2;
    this.rank.value = ranks.size > 1 ? "some" : [...ranks].join("");
  }
}
