// Debian's Chromium, headless, and quiet: nothing but what a page asks for.
import { chromium, type Browser } from 'playwright-core';

/** `gpu` is `swiftshader`, or `none`: as in a virtual machine, where Chromium has no WebGL2 and draws by itself. */
export function launch(gpu: string): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.VINK_CHROMIUM ?? '/usr/bin/chromium',
    args: [
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      ...(gpu === 'none' ? ['--disable-gpu'] : [`--use-angle=${gpu}`, '--enable-unsafe-swiftshader']),
      '--enable-precise-memory-info',
      '--disable-quic',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
    ],
  });
}
