// Whose lines a log shows, and of which level.

export class LogChoices {
  constructor(card) {
    this.log = card;
    this.level = card.card.querySelector("#log-level");
    this.rank = card.card.querySelector("#log-rank");
    const { rank, level } = card.page.place;
    this.filter = { ranks: new Set((rank ?? "").split(",").filter(Boolean).map(Number)), level: level ?? "" };
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
    options.push(...all.map((rank) => [rank, `${words.rank} ${rank}`]));
    this.rank.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
    this.rank.hidden = all.length < 2;
    this.rank.value = ranks.size > 1 ? "some" : [...ranks].join("");
  }
}
