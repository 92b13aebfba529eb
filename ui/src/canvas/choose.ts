// Which backend draws.
import type { BackendName } from './types.ts';

/** The names of renderers that are programs. */
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

export interface Choice {
  name: BackendName;
  /** For the status bar: why not the first choice, or nothing. */
  why: string;
}

/** Looks at a canvas of its own: one that has had a context of one kind gets none of another. */
export function choose(asked: BackendName | 'auto'): Choice {
  if (asked === 'canvas2d') return { name: asked, why: '' };
  const gl = document.createElement('canvas').getContext('webgl2');
  if (!gl) return { name: 'canvas2d', why: 'this browser has no WebGL2' };
  const names = gl.getExtension('WEBGL_debug_renderer_info');
  const renderer = String(gl.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension('WEBGL_lose_context')?.loseContext();
  if (asked === 'auto' && SOFTWARE.test(renderer)) {
    return { name: 'canvas2d', why: 'WebGL2 has no graphics processor here, only a program' };
  }
  return { name: 'webgl2', why: '' };
}
