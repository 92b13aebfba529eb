// What goes through a time that is over: a recorded run's, or that of what the page has kept of a lab. It stands, or goes at
// a speed; the time is set by a slider, by keys, and by what is jumped to.

import { untrack } from 'svelte';

/** Seconds of the lab's clock in one of the host's. */
export const SPEEDS = [0.001, 0.01, 0.1, 0.25, 0.5, 1, 2, 10, 100, 1000];

/** The speed at which a span of so many ns takes some ten seconds, and 1 at most. */
export function fitting(span: number): number {
  const fits = SPEEDS.findLast((speed) => speed <= span / 10e9) ?? SPEEDS[0]!;
  return Math.min(fits, 1);
}

/** One that goes along with another is not farther away, ms of the host's time; and is told so often where that one is. */
const NEAR_MS = 400;
const TOLD_MS = 250;

export class Player {
  /** The time shown, and the first and last that there is, ns. */
  at = $state(0);
  from = $state(0);
  to = $state(0);
  plays = $state(false);
  speed = $state(1);
  /** Plays no further than this, for now: what is behind it is not there yet. */
  limit = Infinity;
  /** The user has set another time or speed. */
  onset: () => void = () => {};
  #goesAlong = false;
  #step = $derived(this.plays ? Math.floor(this.at / (TOLD_MS * 1e6 * this.speed)) : this.at);

  #show: (at: number, rate: number) => void;
  #host = 0;
  #began = 0;
  #request = 0;

  /** `show` shows a time, which goes on `rate` times as fast as the host's. */
  constructor(show: (at: number, rate: number) => void) {
    this.#show = show;
  }

  /** The time shown, and how fast it goes (0: it stands), as others are told of it. */
  get moment(): { at: number; pace: number } {
    void this.#step;
    return { at: untrack(() => this.at), pace: this.plays ? this.speed : 0 };
  }

  /** Goes along with another page, which shows this time, and goes on at this pace. */
  along(at: number, pace: number): void {
    this.#goesAlong = true;
    if (pace && this.speed !== pace) this.faster(pace);
    if (!pace && this.plays) this.play(false);
    if (!pace || !this.plays || Math.abs(at - this.at) > NEAR_MS * 1e6 * pace) this.seek(at);
    if (pace && !this.plays && this.at < this.to) this.play(true);
    this.#goesAlong = false;
  }

  seek(at: number): void {
    this.at = Math.round(Math.min(Math.max(at, this.from), this.to));
    this.#from(this.plays);
  }

  play(on: boolean): void {
    if (on && this.at >= this.to) this.at = this.from;
    this.plays = on;
    this.#from(on);
    if (on) this.#tick();
  }

  faster(speed: number): void {
    this.speed = speed;
    this.#from(this.plays);
  }

  close(): void {
    this.plays = false;
    cancelAnimationFrame(this.#request);
  }

  /** Begins anew from the time shown. */
  #from(goes: boolean): void {
    if (!this.#goesAlong) this.onset();
    this.#began = this.at;
    this.#host = performance.now();
    this.#show(this.at, goes ? this.speed : 0);
  }

  #wait(): void {
    this.#began = this.at;
    this.#host = performance.now();
    this.#show(this.at, 0);
  }

  #tick(): void {
    cancelAnimationFrame(this.#request);
    this.#request = requestAnimationFrame(() => {
      if (!this.plays) return;
      const now = Math.round(this.#began + (performance.now() - this.#host) * 1e6 * this.speed);
      const limit = Math.max(this.limit, this.#began);
      this.at = Math.min(now, this.to, limit);
      if (this.at >= this.to) {
        this.plays = false;
        return this.#wait();
      }
      // It waits for what is not there yet.
      if (now > limit) this.#wait();
      else this.#show(this.at, this.speed);
      this.#tick();
    });
  }
}
