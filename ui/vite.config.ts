// How the page is built: ui/dist, which vink embeds. `npm run dev` serves it from the sources, and passes requests on to a
// control process's socket.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { licences } from './tools/licences.ts';

export default defineConfig({
  plugins: [svelte(), licences()],
  base: './',
  build: {
    target: 'es2022',
    // Content hashes in names: what is below assets/ never changes. A bundle of more is for a lazy part.
    chunkSizeWarningLimit: 600,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  worker: { format: 'es' },
  server: {
    host: '127.0.0.1',
    proxy: { '/v1': { target: { socketPath: `${process.env.VINK_RUNTIME}/control.sock` } as never, ws: true } },
    fs: { allow: ['..'] },
  },
});
