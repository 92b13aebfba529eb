// Whether single keys are shortcuts: a user may switch them off (WCAG 2.1.4).

const KEY = 'vink.shortcuts';

class Shortcuts {
  #on = $state(localStorage.getItem(KEY) !== 'off');

  get on(): boolean {
    return this.#on;
  }

  set on(value: boolean) {
    this.#on = value;
    localStorage.setItem(KEY, value ? 'on' : 'off');
  }
}

export const shortcuts = new Shortcuts();
