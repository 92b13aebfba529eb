// Each view has an address: #/lab/NAME?sel=r1&panel=events. The browser's Back leads to the view before.

export interface Route {
  lab: string | null;
  /** What is selected: a machine, `wire:NAME`, or nothing. */
  selected: string;
  /** The panel below the canvas. */
  panel: string;
}

function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?');
  const words = new URLSearchParams(query);
  const lab = /^\/lab\/(.+)$/.exec(path);
  return {
    lab: lab ? decodeURIComponent(lab[1]!) : null,
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
    const { lab, selected, panel } = { ...this.now, ...to };
    if (lab === null) return '#/';
    const words = new URLSearchParams();
    if (selected) words.set('sel', selected);
    if (panel !== 'events') words.set('panel', panel);
    const query = words.toString();
    return `#/lab/${encodeURIComponent(lab)}${query ? '?' + query : ''}`;
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
