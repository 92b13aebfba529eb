// Makes the feed apart from the page, as the daemon does: its work is not the page's.
import { Feed } from './feed.ts';

/** How often the feed's frames leave, ms. */
const EVERY = 50;

self.onmessage = ({ data }: MessageEvent<{ ends: number; flights: number; origin: number }>) => {
  const { ends, flights, origin } = data;
  const now = () => BigInt(Math.round((performance.timeOrigin + performance.now() - origin) * 1e6));
  const feed = new Feed(ends, flights, now());
  setInterval(() => {
    for (const frame of feed.until(now())) self.postMessage(frame, { transfer: [frame] });
  }, EVERY);
};
