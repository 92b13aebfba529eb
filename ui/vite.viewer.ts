// How the player of saved pictures is built: one script, dist/viewer.js, beside the page.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  // A saved picture has its places: what would make them is left out, with its worker. So is the worker that draws.
  resolve: {
    alias: [
      { find: /^\.\/layout\.ts$/, replacement: at('src/viewer/no-layout.ts') },
      { find: /^\.\/start\.ts$/, replacement: at('src/viewer/start.ts') },
    ],
  },
  publicDir: false,
  build: {
    target: 'es2022',
    emptyOutDir: false,
    lib: { entry: at('src/viewer/viewer.ts'), formats: ['es'], fileName: () => 'viewer.js' },
  },
});
