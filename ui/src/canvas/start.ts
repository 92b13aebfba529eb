// Starts the worker that places nodes: a script of its own beside the page's.
export function start(): Worker {
  return new Worker(new URL('./layout.worker.ts', import.meta.url), { type: 'module' });
}
