// The lab's time that is shown, between two times that the page gives.

/** A correction of less than this is spread over as long, so that packets never jump back. */
const SLEW_MS = 500;

export class Clock {
  rate = 0;
  #ns = 0n;
  #host = 0;
  /** How much was shown too much, ns. */
  #error = 0;

  /** The lab's time is `ns` at the host's `host` ms, and runs `rate` times as fast. */
  set(ns: bigint, rate: number, host: number): void {
    const error = Number(this.at(host) - ns);
    const isSmall = rate > 0 && this.rate > 0 && Math.abs(error) < rate * SLEW_MS * 1e6;
    this.#error = isSmall ? error : 0;
    this.#ns = ns;
    this.rate = rate;
    this.#host = host;
  }

  at(host: number): bigint {
    const since = Math.max(host - this.#host, 0);
    const error = this.#error * Math.max(0, 1 - since / SLEW_MS);
    return this.#ns + BigInt(Math.round(since * 1e6 * this.rate + error));
  }
}
