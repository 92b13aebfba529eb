// Starts workers: scripts of their own beside the page's.

/** The one that places nodes. */
export function startLayout(): Worker {
  return new Worker(new URL('./layout.worker.ts', import.meta.url), { type: 'module' });
}

/** The one that draws by Canvas2D; null where the picture is to draw by itself. */
export function startDrawing(): Worker | null {
  return new Worker(new URL('./canvas2d/draw.worker.ts', import.meta.url), { type: 'module' });
}
