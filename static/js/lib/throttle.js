// Names that come in any number go out at once when it was quiet, and then at most four times a second, each name once.

export class Throttle {
  /**
   * @param {(names: string[]) => void} tell
   * @param {{every?: number, now?: () => number, later?: (f: () => void, ms: number) => unknown}} options milliseconds
   */
  constructor(tell, { every = 250, now = () => performance.now(), later = (f, ms) => setTimeout(f, ms) } = {}) {
    this.tell = tell;
    this.every = every;
    this.now = now;
    this.later = later;
    this.waiting = new Set();
    this.last = Number.NEGATIVE_INFINITY;
    this.planned = false;
  }

  add(name) {
    this.waiting.add(name);
    if (this.planned) return;
    const left = this.last + this.every - this.now();
    if (left <= 0) {
      this.flush();
    } else {
      this.planned = true;
      this.later(() => this.flush(), left);
    }
  }

  flush() {
    this.planned = false;
    this.last = this.now();
    const names = [...this.waiting];
    this.waiting.clear();
    this.tell(names);
  }
}
