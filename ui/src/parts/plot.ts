// Lines over time, drawn by uPlot: what plots of the page have in common.
import 'uplot/dist/uPlot.min.css';
import uPlot from 'uplot';
import { prefixed } from '../model/units.ts';

/** Okabe and Ito's, and a dash each: lines are not told apart by colour alone. */
const STYLES: [string, number[]][] = [
  ['#0072b2', []],
  ['#d55e00', [8, 4]],
  ['#009e73', [2, 3]],
  ['#cc79a7', [12, 3, 2, 3]],
  ['#e69f00', [5, 2]],
  ['#56b4e9', [1, 4]],
];
/** Room for the legend, and the least height, CSS pixels. */
const LEGEND = 40;
const LEAST = 80;

/** The time in seconds, and for each line its numbers: null is a gap. */
export type Lines = [number[], ...(number | null)[][]];

/** Draws lines of these names in an element, as large as it is, until `end`. */
export function plotIn(parent: HTMLElement, names: string[], unit: string, lines: Lines) {
  const style = getComputedStyle(parent);
  const axis = { stroke: style.getPropertyValue('--text'), grid: { stroke: style.getPropertyValue('--line') } };
  const height = () => Math.max(parent.clientHeight - LEGEND, LEAST);
  const plot = new uPlot(
    {
      width: parent.clientWidth,
      height: height(),
      scales: { x: { time: false } },
      axes: [
        { ...axis, values: (_, values) => values.map((value) => `${value} s`) },
        { ...axis, size: 90, values: (_, values) => values.map((value) => prefixed(value, unit)) },
      ],
      series: [
        { label: 'time' },
        ...names.map((label, place) => {
          const [stroke, dash] = STYLES[place % STYLES.length]!;
          return { label, stroke, dash, width: 2, value: (_: uPlot, value: number) => prefixed(value ?? 0, unit) };
        }),
      ],
    },
    lines as uPlot.AlignedData,
    parent,
  );
  const observer = new ResizeObserver(() => {
    if (parent.clientWidth) plot.setSize({ width: parent.clientWidth, height: height() });
  });
  observer.observe(parent);
  return {
    show: (lines: Lines) => plot.setData(lines as uPlot.AlignedData),
    end() {
      observer.disconnect();
      plot.destroy();
    },
  };
}
