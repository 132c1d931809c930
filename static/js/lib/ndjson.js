// Lines of JSON out of pieces of text, wherever these were cut.

export class Lines {
  #rest = "";

  /** The values of the lines that this piece completes. */
  feed(text) {
    const parts = (this.#rest + text).split("\n");
    this.#rest = parts.pop();
    return parts.filter((part) => part.trim()).map((part) => JSON.parse(part));
  }

  /** What a stream that ended left without a newline. */
  end() {
    const rest = this.#rest.trim();
    this.#rest = "";
    return rest ? [JSON.parse(rest)] : [];
  }
}
