// The explorer's search: words that must all be there, and `kind:router addr:10.0.0.0/8 state:dead wire:w1 name:r*`.

/** What can be searched for. */
export interface Searched {
  name: string;
  kind: string;
  state: string;
  addresses: string[];
  wires: string[];
}

type Test = (what: Searched) => boolean;

/** A pattern with `*` for any text; it may be anywhere in the name if it has none. */
function glob(pattern: string): (text: string) => boolean {
  const lower = pattern.toLowerCase();
  if (!lower.includes('*')) return (text) => text.toLowerCase().includes(lower);
  const parts = lower.split('*').map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, '\\$&'));
  const expression = new RegExp(`^${parts.join('.*')}$`);
  return (text) => expression.test(text.toLowerCase());
}

/** An IPv4 address as a number, null for something else. */
function ipv4(text: string): number | null {
  const parts = text.split('.').map(Number);
  if (parts.length !== 4 || parts.some((part) => !(Number.isInteger(part) && part >= 0 && part < 256))) return null;
  return parts.reduce((sum, part) => sum * 256 + part, 0);
}

/** Whether an address (with the size of its network behind it) is in a network, or begins as a text does. */
function within(network: string): (address: string) => boolean {
  const [base = '', size] = network.split('/');
  const wanted = ipv4(base);
  if (size === undefined || wanted === null) return (address) => address.startsWith(network);
  const span = 2 ** (32 - Number(size));
  return (address) => {
    const found = ipv4(address.split('/')[0]!);
    return found !== null && Math.floor(found / span) === Math.floor(wanted / span);
  };
}

function test(word: string): Test {
  const [, key, value] = /^(\w+):(.+)$/.exec(word) ?? [];
  switch (value === undefined ? '' : key) {
    case 'kind':
      return (what) => what.kind === value;
    case 'state':
      return (what) => what.state === value;
    case 'addr': {
      const inside = within(value!);
      return (what) => what.addresses.some(inside);
    }
    case 'wire': {
      const fits = glob(value!);
      return (what) => what.wires.some(fits);
    }
    case 'name': {
      const fits = glob(value!);
      return (what) => fits(what.name);
    }
    default: {
      const fits = glob(word);
      return (what) => fits(what.name) || what.addresses.some(fits);
    }
  }
}

/** Whether something fits all words. A word after `-` must not fit. */
export function search(text: string): Test {
  const tests = text
    .split(/\s+/)
    .filter(Boolean)
    .map((word): Test => {
      if (!word.startsWith('-') || word.length === 1) return test(word);
      const not = test(word.slice(1));
      return (what) => !not(what);
    });
  return (what) => tests.every((fits) => fits(what));
}
