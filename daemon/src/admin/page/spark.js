// Charts of the last ten minutes, without axes: the numbers beside them have units.

import { drawing } from './dom.js';

/** Charts show so many seconds, or what there is of them, but at least a minute. */
const MOST = 600;
const LEAST = 60;
let shown = LEAST;
/** A point replaces the one before if that is newer than so many seconds. */
const STEP = 5;
const WIDTH = 300;
const HEIGHT = 26;

/** Values over time. Each point has a time in seconds, and some values or none. */
export class Series {
  points = [];

  add(at, values) {
    const last = this.points.at(-1);
    const before = this.points.at(-2);
    if (last && before && last.at - before.at < STEP) this.points.pop();
    this.points.push({ at, values });
    while (this.points.length > 2 && this.points[1].at < at - MOST) this.points.shift();
  }

  largest(index) {
    return this.points.reduce((most, { values }) => Math.max(most, values?.[index] ?? 0), 0);
  }
}

/** Fits all charts to a history that began at `first`. Returns their seconds. */
export function fitCharts(first, now) {
  shown = Math.min(MOST, Math.max(LEAST, now - first));
  return shown;
}

/** A chart of the value `index` of a series. */
export class Spark {
  #area = drawing('path', { class: 'area' });
  #line = drawing('path', { class: 'line' });
  #rate = drawing('path', { class: 'rate' });

  constructor(index, kind = '') {
    this.index = index;
    const floor = drawing('path', { class: 'floor', d: `M0,${HEIGHT}H${WIDTH}` });
    const view = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none' };
    this.element = drawing('svg', { class: `spark ${kind}`, 'aria-hidden': 'true', ...view },
      floor, this.#area, this.#line, this.#rate);
  }

  /** Shows `series` up to `now`. The chart is as high as its largest value, as `rate`, or as `least`. */
  show(series, now, { rate = null, least = 1 } = {}) {
    const top = Math.max(series.largest(this.index), rate ?? 0, least) * 1.08;
    const y = (value) => (HEIGHT - (value / top) * HEIGHT).toFixed(1);
    let line = '';
    let area = '';
    let run = null;
    const end = () => { if (run) area += `V${HEIGHT}H${run}Z`; run = null; };
    for (const { at, values } of series.points) {
      const value = values?.[this.index];
      if (value === null || value === undefined) { end(); continue; }
      const x = Math.max(0, WIDTH - ((now - at) / shown) * WIDTH).toFixed(1);
      line += `${run ? 'L' : 'M'}${x},${y(value)}`;
      area += run ? `L${x},${y(value)}` : `M${x},${HEIGHT}V${y(value)}`;
      run ??= x;
    }
    end();
    this.#line.setAttribute('d', line);
    this.#area.setAttribute('d', area);
    this.#rate.setAttribute('d', rate === null ? '' : `M0,${y(rate)}H${WIDTH}`);
  }
}
