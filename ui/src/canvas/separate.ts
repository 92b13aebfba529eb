// Moves groups apart, so that their frames do not cover each other: each as a whole, as little as it takes.

/** Between frames, in the world's units: twice a frame's padding, and some air. */
const AIR = 100;
const ROUNDS = 80;

/** Changes `positions` (x, y by node). `groups` are the nodes of each group. */
export function separate(positions: Float32Array, groups: number[][]): void {
  const boxes = groups
    .filter((nodes) => nodes.length > 0)
    .map((nodes) => {
      const xs = nodes.map((node) => positions[2 * node]!);
      const ys = nodes.map((node) => positions[2 * node + 1]!);
      const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
      return {
        nodes,
        x: (left + right) / 2,
        y: (top + bottom) / 2,
        wide: (right - left + AIR) / 2,
        high: (bottom - top + AIR) / 2,
        dx: 0,
        dy: 0,
      };
    });
  for (let round = 0; round < ROUNDS; round++) {
    let isDone = true;
    for (let one = 0; one < boxes.length; one++) {
      for (let other = one + 1; other < boxes.length; other++) {
        const [a, b] = [boxes[one]!, boxes[other]!];
        const [dx, dy] = [b.x + b.dx - a.x - a.dx, b.y + b.dy - a.y - a.dy];
        const [overX, overY] = [a.wide + b.wide - Math.abs(dx), a.high + b.high - Math.abs(dy)];
        if (overX <= 0 || overY <= 0) continue;
        isDone = false;
        if (overX < overY) {
          const by = (dx < 0 ? -1 : 1) * (overX / 2 + 1);
          a.dx -= by;
          b.dx += by;
        } else {
          const by = (dy < 0 ? -1 : 1) * (overY / 2 + 1);
          a.dy -= by;
          b.dy += by;
        }
      }
    }
    if (isDone) break;
  }
  for (const { nodes, dx, dy } of boxes) {
    for (const node of nodes) {
      positions[2 * node]! += dx;
      positions[2 * node + 1]! += dy;
    }
  }
}
