// Starts workers from texts within the widget's script.
import DrawWorker from '../canvas/canvas2d/draw.worker.ts?worker&inline';
import LayoutWorker from '../canvas/layout.worker.ts?worker&inline';

export function startLayout(): Worker {
  return new LayoutWorker();
}

export function startDrawing(): Worker | null {
  return new DrawWorker();
}
