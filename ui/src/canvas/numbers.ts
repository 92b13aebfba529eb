// Numbers as they stand on wires: three digits and a letter.

export function short(value: number): string {
  const size = Math.abs(value);
  const [unit, letter] =
    size >= 999.5e6 ? [1e9, 'G'] : size >= 999.5e3 ? [1e6, 'M'] : size >= 999.5 ? [1e3, 'k'] : [1, ''];
  const scaled = value / unit;
  const digits =
    Math.abs(scaled) >= 99.95 || (unit === 1 && Number.isInteger(value)) ? 0 : Math.abs(scaled) >= 9.995 ? 1 : 2;
  return scaled.toFixed(digits) + letter;
}
