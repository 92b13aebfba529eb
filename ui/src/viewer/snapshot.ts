// A picture as a page of its own: its nodes, wires and last flights, with the program that plays them, in one file of HTML
// that needs nothing else. Names and all else that a lab has are data in it, never HTML or script.
import { HEADER_BYTES, WORDS } from '../canvas/feed.ts';
import type { Ring } from '../canvas/ring.ts';
import type { Camera, PacketClass, Topology } from '../canvas/types.ts';

export interface Snapshot {
  title: string;
  topology: Topology;
  positions: number[];
  collapsed: string[];
  classes: PacketClass[];
  camera: Camera;
  oneIn: number;
  /** Each hop's least time, ms. */
  least: number;
  /** The feed's frames, in base 64. */
  frames: string[];
}

/** The newest flights of a ring, at most so many, as frames of the feed. */
export function frames(ring: Ring, most: number): ArrayBuffer[] {
  const made: ArrayBuffer[] = [];
  let left = most;
  for (const { base, spans } of [...ring.chunks].reverse()) {
    for (const { start, count } of [...spans].reverse()) {
      const some = Math.min(count, left);
      if (!some) return made.reverse();
      left -= some;
      const frame = new ArrayBuffer(HEADER_BYTES + 4 * WORDS * some);
      const view = new DataView(frame);
      view.setUint16(2, some, true);
      view.setBigUint64(8, base, true);
      view.setUint32(20, 1, true);
      const first = start + count - some;
      new Uint32Array(frame, HEADER_BYTES).set(ring.words.subarray(first * WORDS, (first + some) * WORDS));
      made.push(frame);
    }
  }
  return made.reverse();
}

export function toText(frame: ArrayBuffer): string {
  let text = '';
  const bytes = new Uint8Array(frame);
  // In pieces: a call has only so many arguments.
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

export function fromText(text: string): ArrayBuffer {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
}

/** The page. `script` is the player's, as built (viewer.js). */
export function page(snapshot: Snapshot, script: string): string {
  // Within a script element only its end is an end. Data is JSON, where `<` can be written otherwise.
  const data = JSON.stringify(snapshot).replaceAll('<', '\\u003c');
  const program = script.replaceAll(/<\/(script)/gi, '<\\/$1').replaceAll('<!--', '<\\!--');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<title>Vink</title>
</head>
<body>
<script type="application/json" id="snapshot">${data}</script>
<script type="module">${program}</script>
</body>
</html>
`;
}
