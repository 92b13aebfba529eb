// What the built page holds of other packages: the build fails for a licence that does not go with GPL-2.0-only
// (docs/design/licences.md), and the page carries the texts, as these licences ask.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Plugin } from 'vite';

const FITTING = new Set(['0BSD', 'BSD-2-Clause', 'BSD-3-Clause', 'CC0-1.0', 'ISC', 'MIT']);

/** The folder of the package that a module is of, null for the page's own. */
function folderOf(module: string): string | null {
  if (!module.includes('/node_modules/')) return null;
  let folder = dirname(module.replace(/^\0/, '').replace(/\?.*$/, ''));
  // Folders inside a package have a package.json without a name, to tell the kind of their modules.
  while (folder.includes('/node_modules/')) {
    const file = join(folder, 'package.json');
    if (existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).version) return folder;
    folder = dirname(folder);
  }
  throw new Error(`${module} is of no package`);
}

export function licences(): Plugin {
  const folders = new Set<string>();
  return {
    name: 'vink-licences',
    apply: 'build',
    generateBundle(_, bundle) {
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== 'chunk') continue;
        for (const module of chunk.moduleIds) {
          const folder = folderOf(module);
          if (folder) folders.add(folder);
        }
      }
      const notices = [...folders].sort().map((folder) => {
        const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
        if (!FITTING.has(license))
          throw new Error(`${name} ${version}: licence ${license}: see docs/design/licences.md`);
        const text = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
        return `${name} ${version} (${license})\n\n${text ? readFileSync(join(folder, text), 'utf8').trim() : ''}\n`;
      });
      this.emitFile({ type: 'asset', fileName: 'licences.txt', source: notices.join('\n\n') });
    },
  };
}
