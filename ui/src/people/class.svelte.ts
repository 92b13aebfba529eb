// All labs at once, as a teacher looks at them: each one's users, what is asked and done there, and its terminals.
import { api, body, follow } from '../api/client.ts';
import { transport } from '../api/transport.ts';
import type { Event, LabSummary } from '../api/types.ts';
import { notices } from '../model/notice.svelte.ts';
import { Views } from './views.svelte.ts';

/** A terminal that the lab keeps. */
export interface Kept {
  program: number;
  machine: string;
  words: string[];
  /** The user that has started it. */
  actor: string;
  /** The user that types there, if one does. */
  keyboard: string | null;
}

/** A lab of the class. */
export interface Seen {
  summary: LabSummary;
  views: Views;
  terminals: Kept[];
}

/** How many labs are looked at: each has a document of its own. */
const MOST = 100;
/** Events of this long are one question, ms. */
const SOON_MS = 200;

export class Class {
  labs = $state.raw<Seen[]>([]);
  loaded = $state(false);
  /** Labs that are left out. */
  more = $state(0);

  #due = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stop: () => void;
  #isClosed = false;

  constructor() {
    void this.#refresh();
    const all = () => {
      for (const { summary } of this.labs) this.#due.add(summary.name);
      void this.#refresh();
    };
    this.#stop = follow<Event>('/v1/events', (event) => this.#happened(event), all);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#stop();
    for (const { views } of this.labs) views.close();
  }

  #happened({ lab }: Event): void {
    this.#due.add(lab);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#refresh();
    }, SOON_MS);
  }

  async #refresh(): Promise<void> {
    const due = new Set(this.#due);
    this.#due.clear();
    try {
      const summaries = (await body(api.GET('/v1/labs'))).sort((a, b) => a.name.localeCompare(b.name));
      const before = new Map(this.labs.map((one) => [one.summary.name, one]));
      const made = await Promise.all(
        summaries.slice(0, MOST).map(async (summary) => {
          const known = before.get(summary.name);
          const terminals = known && !due.has(summary.name) ? known.terminals : await kept(summary.name);
          return { summary, terminals };
        }),
      );
      if (this.#isClosed) return;
      // Asked again meanwhile, one of them may have been made already.
      const now = new Map(this.labs.map(({ summary, views }) => [summary.name, views]));
      this.labs = made.map(({ summary, terminals }) => {
        const views = now.get(summary.name) ?? new Views(summary.name);
        now.delete(summary.name);
        return { summary, terminals, views };
      });
      for (const views of now.values()) views.close();
      this.more = Math.max(summaries.length - MOST, 0);
      this.loaded = true;
    } catch (error) {
      notices.refuse(error);
    }
  }
}

/** A lab's terminals; none if it has just gone. */
async function kept(lab: string): Promise<Kept[]> {
  const answer = await transport.request('GET', `/v1/labs/${encodeURIComponent(lab)}/terminals`);
  return answer.ok ? ((await answer.json()) as Kept[]) : [];
}
