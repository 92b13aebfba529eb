// Where the page begins.
import { mount } from 'svelte';
import App from './App.svelte';
import './colours.css';
import './app.css';

mount(App, { target: document.getElementById('app')! });
