// What the line of a packet says of it, and what a wire's settings say of how long it is under way.

const UNITS: Record<string, number> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  min: 60e9,
  h: 3600e9,
  d: 86400e9,
};

/** A length of time as lab files have it, in ns. */
export function span(text: unknown): number {
  const [, value, unit] = /^([\d.]+) *(\D+)$/.exec(String(text ?? 0)) ?? [];
  return value ? Number(value) * (UNITS[unit!] ?? 0) : 0;
}

/** A rate as lab files have it, in bits per second; 0: unlimited. */
export function rate(text: unknown): number {
  const [, value, prefix = '', unit] = /^([\d.]+) *([kmgt]?)(bit|bps)(?:\/s)?$/i.exec(String(text ?? 0)) ?? [];
  const size = { '': 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12 }[prefix.toLowerCase()] ?? 1;
  return value ? Number(value) * size * (unit!.toLowerCase() === 'bps' ? 8 : 1) : 0;
}

/** The place in the picture's classes of what a packet's line says. */
export function classify(summary: string): number {
  if (/\bARP\b|neighbor|router (solicit|advert)/i.test(summary)) return 1;
  if (/\bICMP/i.test(summary)) return 2;
  if (/\bOSPF|\bRIP\b|\bBGP\b|[.:]179\b/i.test(summary)) return 7;
  if (/\bTCP\b/.test(summary)) return /\[[^\]]*[SRF][^\]]*\]/.test(summary) ? 3 : 4;
  if (/\bUDP\b/.test(summary)) return 6;
  return 0;
}

/** FNV-1a. */
export function hash(text: string): number {
  let sum = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193);
  return sum >>> 0;
}

/** A number for both directions of a packet's flow, as its line has it: 0 for none. */
export function flow(summary: string): number {
  const [, one, other, protocol] = /^IP6? (\S+) > (\S+): (\w+)/.exec(summary) ?? [];
  return one ? hash([one, other].sort().join(' ') + protocol!.replace(/\d+$/, '')) || 1 : 0;
}
