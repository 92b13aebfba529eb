// Colours of the picture: those of the page's style sheet (its custom properties), else these. Each is a word of four
// bytes, red first.
import type { Kind, PacketClass } from './types.ts';

export interface Theme {
  ground: number;
  text: number;
  faint: number;
  accent: number;
  bad: number;
  wire: number;
  frame: number;
  kinds: Record<Kind, number>;
}

const FALLBACK: Record<string, string> = {
  '--ground': '#fbfcfd',
  '--text': '#14202b',
  '--faint': '#51606d',
  '--accent': '#005a9c',
  '--bad': '#a8321a',
  '--wire': '#7d8b97',
  '--raised': '#eef2f5',
  '--machine': '#0072b2',
  '--router': '#009e73',
  '--switch': '#6a5d00',
  '--bus': '#7d8b97',
  '--uplink': '#b0588a',
};

/** The colours of Okabe and Ito, which people with colour blindness tell apart; the glyphs say the same. */
export const CLASSES: PacketClass[] = [
  { name: 'other', colour: '#7d8b97', glyph: 'disc' },
  {
    name: 'ARP, ND',
    colour: '#f0e442',
    glyph: 'ring',
    filter: 'arp or (icmp6 and ip6[40] >= 133 and ip6[40] <= 137)',
  },
  { name: 'ICMP', colour: '#56b4e9', glyph: 'diamond', filter: 'icmp or icmp6' },
  { name: 'routing', colour: '#e69f00', glyph: 'plus', filter: 'ip proto 89 or ip6 proto 89 or port 179 or port 520' },
  {
    name: 'TCP handshake',
    colour: '#cc79a7',
    glyph: 'up',
    filter: 'tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst) != 0 or (ip6 proto 6 and ip6[53] & 7 != 0)',
  },
  { name: 'TCP', colour: '#0072b2', glyph: 'disc', filter: 'tcp' },
  { name: 'UDP', colour: '#009e73', glyph: 'square', filter: 'udp' },
];

/** `#rgb` or `#rrggbb` as a word; null for anything else. */
export function parseColour(text: string): number | null {
  const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(text.trim());
  const long = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(text.trim());
  const parts = short ? short.slice(1).map((digit) => digit + digit) : long?.slice(1);
  if (!parts) return null;
  const [r, g, b] = parts.map((part) => parseInt(part, 16));
  return (r! | (g! << 8) | (b! << 16) | 0xff000000) >>> 0;
}

/** The same colour, `alpha` (0 to 1) opaque. */
export function faded(colour: number, alpha: number): number {
  return ((colour & 0xffffff) | (Math.round(alpha * 255) << 24)) >>> 0;
}

export function css(colour: number): string {
  return `rgba(${colour & 255},${(colour >>> 8) & 255},${(colour >>> 16) & 255},${(colour >>> 24) / 255})`;
}

export function themeOf(element: Element): Theme {
  const style = getComputedStyle(element);
  const colour = (name: string) => parseColour(style.getPropertyValue(name)) ?? parseColour(FALLBACK[name]!)!;
  return {
    ground: colour('--ground'),
    text: colour('--text'),
    faint: colour('--faint'),
    accent: colour('--accent'),
    bad: colour('--bad'),
    wire: colour('--wire'),
    frame: colour('--raised'),
    kinds: {
      machine: colour('--machine'),
      router: colour('--router'),
      switch: colour('--switch'),
      bus: colour('--bus'),
      uplink: colour('--uplink'),
    },
  };
}
