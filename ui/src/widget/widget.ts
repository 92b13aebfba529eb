// The picture as a widget of a notebook (https://anywidget.dev/en/afm): one script, dist/widget.js, which the Python package
// asks the control process for, so that both are of one build.
import { mount, unmount } from 'svelte';
import { transport } from '../api/transport.ts';
import '../colours.css';
import { LabModel } from '../model/lab.svelte.ts';
import { Comm, type Model } from './comm.ts';
import Notebook from './Notebook.svelte';

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const comm = new Comm(model);
  transport.goes(comm);
  const lab = new LabModel(model.get('lab') as string);
  const notebook = mount(Notebook, { target: el, props: { lab, height: model.get('height') as number } });
  return () => {
    lab.close();
    void unmount(notebook);
    comm.close();
  };
}

export default { render };
