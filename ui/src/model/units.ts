// Numbers as people read them.

/** Seconds: `12.5 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(seconds: number): string {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** A clock's nanoseconds with as many digits as tell packets apart: `12.000 345 s`. */
export function precise(nanoseconds: number): string {
  const whole = Math.floor(nanoseconds / 1e9);
  const rest = String(Math.floor(nanoseconds % 1e9)).padStart(9, '0');
  return `${whole}.${rest.slice(0, 6)} s`;
}

/** With a prefix: `2.5 Mbit/s`. */
export function prefixed(value: number, unit: string): string {
  for (const [size, letter] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${letter}${unit}`;
  }
  return `${Number(value.toPrecision(3))} ${unit}`;
}
