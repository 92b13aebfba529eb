// Starts the worker that places nodes, from a text within the widget's script.
import LayoutWorker from '../canvas/layout.worker.ts?worker&inline';

export function start(): Worker {
  return new LayoutWorker();
}
