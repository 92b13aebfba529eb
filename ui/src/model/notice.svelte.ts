// What the page tells: the command line that the button in question equals, what was done, refusals, and the live region.
import { Refused } from '../api/transport.ts';

export interface Notice {
  id: number;
  text: string;
  hint: string;
}

class Notices {
  /** The `vink` line of the button under the pointer or with the focus, or the last one that was carried out. */
  line = $state('');
  /** All that were carried out, newest last. */
  done = $state<string[]>([]);
  refused = $state<Notice[]>([]);
  /** For screen readers, at most one each second. */
  said = $state('');

  #next = 1;
  #last = 0;
  #waiting = '';

  /** Carries out what a button does, and shows why if it is refused. */
  async act<T>(line: string, what: () => Promise<T>): Promise<T | undefined> {
    try {
      const result = await what();
      if (line) {
        this.line = line;
        this.done = [...this.done.slice(-199), line];
      }
      return result;
    } catch (error) {
      this.refuse(error);
      return undefined;
    }
  }

  refuse(error: unknown): void {
    const { message } = error as Error;
    const hint = error instanceof Refused ? error.hint : '';
    this.refused = [...this.refused.slice(-4), { id: this.#next++, text: message, hint }];
  }

  dismiss(id: number): void {
    this.refused = this.refused.filter((notice) => notice.id !== id);
  }

  say(text: string): void {
    const rest = this.#last + 1000 - performance.now();
    if (rest <= 0) {
      this.#last = performance.now();
      this.said = text;
    } else {
      if (!this.#waiting) setTimeout(() => this.say(this.#take()), rest);
      this.#waiting = text;
    }
  }

  #take(): string {
    const text = this.#waiting;
    this.#waiting = '';
    return text;
  }
}

export const notices = new Notices();

/** A word of a command line, quoted for sh if it must be. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A `vink` command line of words. */
export function vink(...words: string[]): string {
  return ['vink', ...words.map(quote)].join(' ');
}
