// The editor of lab files: CodeMirror with YAML, and marks where something is wrong.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import {
  bracketMatching,
  defaultHighlightStyle,
  foldGutter,
  indentOnInput,
  syntaxHighlighting,
} from '@codemirror/language';
import { lintGutter, setDiagnostics } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { drawSelection, EditorView, keymap, lineNumbers } from '@codemirror/view';
import type { Mistake } from '../model/file.ts';

export interface Editor {
  text(): string;
  set(text: string): void;
  mark(mistakes: Mistake[]): void;
  go(line: number, column: number): void;
  destroy(): void;
}

const colours = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--panel)' },
  '.cm-content': { fontFamily: 'var(--mono)', caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { color: 'var(--faint)', backgroundColor: 'var(--raised)', border: 'none' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-selectionBackground': { backgroundColor: 'var(--raised) !important' },
  '.cm-tooltip': { color: 'var(--text)', backgroundColor: 'var(--panel)' },
  // Tokens have one colour, which has enough contrast in both schemes; keys stand out by their weight.
  '.cm-line *': { color: 'inherit !important' },
  '.cm-line .ͼi, .cm-line .ͼl': { fontWeight: '600' },
});

export function editor(parent: HTMLElement, label: string, changed: (text: string) => void): Editor {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      extensions: [
        lineNumbers(),
        foldGutter(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        syntaxHighlighting(defaultHighlightStyle),
        yaml(),
        lintGutter(),
        // Escape, then Tab leaves the editor.
        keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
        colours,
        EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    }),
  });

  const at = (line: number, column: number) => {
    const found = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines)));
    return { from: Math.min(found.from + Math.max(column - 1, 0), found.to), to: found.to };
  };

  return {
    text: () => view.state.doc.toString(),
    set(text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      view.dispatch(setDiagnostics(view.state, []));
    },
    mark(mistakes) {
      const found = mistakes.map(({ line, column, message, fix, warning }) => ({
        ...at(line, column),
        severity: warning ? ('warning' as const) : ('error' as const),
        message: fix ? `${message}: ${fix}` : message,
      }));
      view.dispatch(setDiagnostics(view.state, found));
    },
    go(line, column) {
      view.dispatch({ selection: { anchor: at(line, column).from }, scrollIntoView: true });
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}
