// The first thing to see: how it is, what is wrong, what to do.

import { byId, fill, node, say } from './dom.js';
import { Series, Spark, fitCharts } from './spark.js';
import { count, millis, perSecond, span } from './units.js';

const WORDS = {
  healthy: ['Healthy', 'good'],
  degraded: ['Degraded', 'warn'],
  'no-daemon': ['No daemon', 'bad'],
  unpublished: ['Nothing published', 'bad'],
  undecided: ['Redis is away', 'bad'],
};
const NOTES = {
  healthy: 'every limit is decided',
  degraded: 'takes are decided; something needs a look',
  'no-daemon': 'workers decide by script',
  unpublished: 'workers find no limits',
  undecided: 'takes end as outage policies say',
};

const lag = new Series();
const lagSpark = new Spark(0);
const tiles = new Map();

/** The history of the lag. */
export function showPast(past, now) {
  lag.points = [];
  past.lag_ms.forEach((ms, i) => lag.points.push({ at: now - (past.lag_ms.length - i) * past.step_s, values: [ms] }));
}

export function showHealth({ daemon, report }, now) {
  const health = !daemon.connected ? 'undecided' : report?.health ?? 'healthy';
  const [word, level] = WORDS[health];
  byId('health').dataset.level = level;
  say(byId('health-word'), report === null && daemon.connected ? 'Gathering…' : word);
  const isOld = health === 'undecided' && report !== null;
  document.body.classList.toggle('is-old', isOld);
  say(byId('health-note'), isOld ? `${NOTES[health]}; figures below are the last ones known` : NOTES[health]);
  const problems = problemsOf(daemon, report);
  fill(byId('problems'), problems, () => problems.map(({ what, action }) => node('li', {},
    node('p', { class: 'what' }, what), action ? node('p', { class: 'action' }, action) : null)));
  showTiles(daemon, report, now);
  document.title = problems.length > 0 ? `(${problems.length}) ${word} – topup` : `${word} – topup`;
}

/** Problems of the report, and those that this daemon alone knows. */
function problemsOf(daemon, report) {
  const problems = (report?.problems ?? []).map(({ what, action }) => ({ what, action }));
  if (daemon.trouble && !problems.some(({ what }) => what.startsWith(daemon.trouble.what))) problems.unshift(daemon.trouble);
  if (daemon.connected) daemon.awaits.forEach((what) => problems.push({ what: `this daemon waits for ${what}` }));
  return problems;
}

function tile(name, text, { small = '', bad = false, chart = null } = {}) {
  if (!tiles.has(name)) {
    const [value, unit] = [node('span'), node('small')];
    const shown = node('dd', {}, value, ' ', unit);
    byId('tiles').append(node('div', {}, node('dt', {}, name), shown, chart));
    tiles.set(name, { value, unit, shown });
  }
  const { value, unit, shown } = tiles.get(name);
  say(value, text);
  say(unit, small);
  shown.classList.toggle('is-bad', bad);
}

function showTiles(daemon, report, now) {
  // A report without answers has no figures: the last ones stay.
  if (report?.health === 'undecided' && tiles.size > 0) return;
  const sum = (field) => (report?.limits ?? []).reduce((all, limit) => all + (limit[field] ?? 0), 0);
  const denied = sum('denied_per_second');
  tile('Allowed', report ? perSecond(sum('allowed_per_second')) : '–');
  tile('Denied', report ? perSecond(denied) : '–');
  tile('Limits', count(report?.limits.length ?? 0));
  tile('Daemons alive', count(report?.daemons.length ?? 0), { bad: report !== null && report.daemons.length === 0 });
  tile('Redis answers in', millis(report?.latency_ms), { bad: !daemon.connected });
  lag.add(now, [daemon.lag_ms]);
  say(byId('chart-span'), span(Math.ceil(fitCharts(lag.points[0].at, now) / 60) * 60));
  tile('Refill lag', millis(daemon.lag_ms), { chart: lagSpark.element });
  lagSpark.show(lag, now, { least: 20 });
}
