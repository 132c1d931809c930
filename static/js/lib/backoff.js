// Waiting times between tries: twice as long each time up to a limit, each drawn from its upper half, so that pages that
// lost one server together do not come back together.

export class Backoff {
  /** @param {{first?: number, limit?: number, random?: () => number}} options milliseconds */
  constructor({ first = 500, limit = 20000, random = Math.random } = {}) {
    this.first = first;
    this.limit = limit;
    this.random = random;
    this.tries = 0;
  }

  next() {
    const whole = Math.min(this.limit, this.first * 2 ** this.tries);
    this.tries += 1;
    return whole / 2 + (whole / 2) * this.random();
  }

  reset() {
    this.tries = 0;
  }
}
