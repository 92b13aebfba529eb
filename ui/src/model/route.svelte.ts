// Each view has an address: #/lab/NAME?sel=r1&panel=events, #/run/ID?t=12.5, #/compare/ID/ID,
// #/explored/ID?schedule=alice:eth0+1+drop&side=1, #/class. The browser's Back leads to the view before.

export interface Route {
  lab: string | null;
  /** What is selected: a machine, `wire:NAME`, or nothing. */
  selected: string;
  /** The panel below the canvas. */
  panel: string;
  /** A recorded run, by its id. */
  run: string | null;
  /** The run that it is compared with. */
  other: string | null;
  /** The time of it that is shown, ns; null: its beginning. */
  at: number | null;
  /** An explored lab, by its id. */
  explored: string | null;
  /** The schedule of the run that is shown of it; null: the one that was found. */
  schedule: string | null;
  /** Of a difference, on which side; 0: the one that was explored. */
  side: number;
  /** All labs at once. */
  isClass: boolean;
}

/** A time in an address, and in a lab's name: seconds, with as many digits as it has. */
export function seconds(at: number): string {
  const text = `${Math.floor(at / 1e9)}.${String(at % 1e9).padStart(9, '0')}`;
  return text.replace(/\.?0+$/, '');
}

function nanoseconds(text: string | null): number | null {
  const parts = /^(\d{1,6})(?:\.(\d{1,9}))?$/.exec(text ?? '');
  return parts ? Number(parts[1]) * 1e9 + Number((parts[2] ?? '').padEnd(9, '0')) : null;
}

function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?');
  const words = new URLSearchParams(query);
  const lab = /^\/lab\/(.+)$/.exec(path);
  const explored = /^\/explored\/([^/]+)$/.exec(path);
  const run = /^\/run\/([^/]+)$/.exec(path) ?? /^\/compare\/([^/]+)\/([^/]+)$/.exec(path);
  return {
    lab: lab ? decodeURIComponent(lab[1]!) : null,
    run: run ? decodeURIComponent(run[1]!) : null,
    other: run?.[2] ? decodeURIComponent(run[2]) : null,
    at: nanoseconds(words.get('t')),
    explored: explored ? decodeURIComponent(explored[1]!) : null,
    schedule: words.get('schedule'),
    side: words.get('side') === '1' ? 1 : 0,
    isClass: path === '/class',
    selected: words.get('sel') ?? '',
    panel: words.get('panel') ?? 'events',
  };
}

class Router {
  now = $state<Route>(parse(location.hash));

  constructor() {
    addEventListener('hashchange', () => (this.now = parse(location.hash)));
  }

  /** Reads the page's address again. */
  read(): void {
    this.now = parse(location.hash);
  }

  address(to: Partial<Route>): string {
    // A view of one thing is none of another.
    const none = { lab: null, run: null, other: null, explored: null, schedule: null, side: 0 };
    const isOther = to.lab != null || to.run != null || to.explored != null;
    const {
      lab,
      selected,
      panel,
      run,
      other: compared,
      at,
      explored,
      schedule,
      side,
    } = {
      ...this.now,
      ...(isOther ? none : {}),
      ...(to.lab != null ? { at: null } : {}),
      ...to,
    };
    if (lab === null && run === null && explored === null) return '#/';
    const words = new URLSearchParams();
    if (explored !== null) {
      if (schedule !== null) words.set('schedule', schedule);
      if (side) words.set('side', String(side));
      return `#/explored/${encodeURIComponent(explored)}${words.size ? '?' + words.toString() : ''}`;
    }
    if (run !== null) {
      if (at !== null) words.set('t', seconds(at));
      if (selected) words.set('sel', selected);
      const path = compared === null ? ['run', run] : ['compare', run, compared];
      return `#/${path.map(encodeURIComponent).join('/')}${words.size ? '?' + words.toString() : ''}`;
    }
    if (selected) words.set('sel', selected);
    if (panel !== 'events') words.set('panel', panel);
    const query = words.toString();
    return `#/lab/${encodeURIComponent(lab!)}${query ? '?' + query : ''}`;
  }

  go(to: Partial<Route>): void {
    const address = this.address(to);
    if (address !== location.hash) location.hash = address;
  }

  /** The same without a step for Back. */
  replace(to: Partial<Route>): void {
    history.replaceState(null, '', this.address(to));
    this.now = parse(location.hash);
  }
}

export const router = new Router();
