// How the notebook's widget is built: one script and its styles, dist/widget.js and dist/widget.css, beside the page.
import { fileURLToPath } from 'node:url';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  plugins: [svelte()],
  // A notebook runs the script from a text: what places nodes, and what draws them, has to be in it, too.
  resolve: { alias: [{ find: /^\.\/start\.ts$/, replacement: at('src/widget/start.ts') }] },
  define: { 'process.env.NODE_ENV': '"production"' },
  publicDir: false,
  build: {
    target: 'es2022',
    emptyOutDir: false,
    lib: { entry: at('src/widget/widget.ts'), formats: ['es'], fileName: () => 'widget.js', cssFileName: 'widget' },
    // So has what the page loads later.
    rolldownOptions: { output: { codeSplitting: false } },
  },
  worker: { format: 'es' },
});
