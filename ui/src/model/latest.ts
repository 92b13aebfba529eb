// Requests of which only the last one matters, such as those of a slider that is dragged: one is under way, the newest of
// the others waits. One that has taken long is aborted for the one that waits.

/** How long a request may take while another one waits, ms. */
const OLD_MS = 150;

export class Latest<K> {
  #ask: (key: K, signal: AbortSignal) => Promise<void>;
  #waiting: { key: K } | null = null;
  #underWay: { began: number; abort: AbortController } | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #idle: (() => void)[] = [];
  #isClosed = false;

  /** `ask` throws only what nothing can be done about: an aborted request's error is not looked at. */
  constructor(ask: (key: K, signal: AbortSignal) => Promise<void>) {
    this.#ask = ask;
  }

  /** Whether nothing is asked for. */
  get isIdle(): boolean {
    return !this.#underWay;
  }

  /** Asks for this, instead of what waits. */
  ask(key: K): void {
    if (this.#isClosed) return;
    this.#waiting = { key };
    if (!this.#underWay) return void this.#next();
    const { began, abort } = this.#underWay;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => abort.abort(), Math.max(began + OLD_MS - performance.now(), 0));
  }

  /** Resolves when nothing is asked for any more. */
  async settled(): Promise<void> {
    if (this.#underWay) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  close(): void {
    this.#isClosed = true;
    this.#waiting = null;
    this.#underWay?.abort.abort();
  }

  async #next(): Promise<void> {
    while (this.#waiting) {
      const { key } = this.#waiting;
      this.#waiting = null;
      const abort = new AbortController();
      this.#underWay = { began: performance.now(), abort };
      try {
        await this.#ask(key, abort.signal);
      } catch (error) {
        if (!abort.signal.aborted) console.warn(error);
      }
      clearTimeout(this.#timer);
    }
    this.#underWay = null;
    for (const tell of this.#idle.splice(0)) tell();
  }
}
