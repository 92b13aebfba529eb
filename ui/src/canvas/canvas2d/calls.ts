// What the page and the worker that draws by Canvas2D say to each other.
import type { Backend } from '../drawing.ts';

type Name = Exclude<keyof Backend, 'shown' | 'destroy'>;

/** A call of the backend. Of `records` only the new ones are sent, as a copy. */
export type Call = { [N in Name]: { call: N; args: Parameters<Backend[N]> } }[Name];

/** To the worker: first the canvas, then calls; and to say when the canvas shows what is drawn. */
export type Asked = { canvas: OffscreenCanvas } | Call | 'shown';

/** From the worker: it has begun; it has drawn a frame with so many flights one by one, which is shown; it asks for a frame. */
export type Told = 'begun' | { drawn: number } | 'shown' | 'again';
