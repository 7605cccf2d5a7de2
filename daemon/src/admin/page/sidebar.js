// Beside the limits: most denied keys, config, changes to come, daemons.

import { byId, facts, fill, keyNode, node, say } from './dom.js';
import { between, clock, count, millis, span } from './units.js';

/** Most keys of all limits together. */
const MOST_KEYS = 8;
const MOST_CHANGES = 6;

const empty = (text) => node('p', { class: 'empty' }, text);

export function showSidebar(news, lookUp) {
  showTop(news.report?.limits ?? [], lookUp);
  showConfig(news);
  showSchedules(news);
  showDaemons(news);
}

function showTop(limits, lookUp) {
  const told = limits.filter(({ top_denied: top }) => top);
  const keys = told.flatMap(({ name, top_denied: top }) => top.keys.map((row) => ({ limit: name, hashed: top.hashed, ...row })));
  keys.sort((one, other) => other.denied - one.denied);
  const shown = keys.slice(0, MOST_KEYS);
  const missing = Math.max(0, ...told.map(({ top_denied: top }) => top.missing));
  fill(byId('top'), [told.length, shown, missing], () => {
    if (told.length === 0) return [empty('No limit has top_keys in its config.')];
    if (shown.length === 0) return [empty('No denials in the last minutes.')];
    return [node('ul', {}, ...shown.map(({ limit, key, hashed, denied }) => node('li', { class: 'pair' },
      // A hash is no key that could be looked up.
      hashed ? keyNode(key) : node('button', { type: 'button', class: 'plain', title: 'Look up', onclick: () => lookUp(limit, key) }, keyNode(key)),
      node('span', {}, node('strong', {}, count(denied)), node('br'), node('span', { class: 'sub' }, limit))))),
    node('p', { class: 'muted fine' }, missing === 0 ? 'Denied takes of the last five minutes.'
      : `Denied takes of the last five minutes. A key may have up to ${count(missing)} more.`)];
  });
}

function showConfig({ config, now, daemon }) {
  const since = config.refused_since && now ? span(between(config.refused_since, now)) : null;
  const applied = config.applied_s_ago === null ? 'none since the start' : `${span(config.applied_s_ago)} ago`;
  fill(byId('config'), [config, since, daemon.notes], () => {
    const made = [facts([['name', node('code', {}, config.name)],
      ...(config.file === config.name ? [] : [['file', node('code', {}, config.file)]]),
      [config.changes === null ? 'loaded' : 'reloaded', applied]])];
    if (config.problems.length > 0) {
      made.push(node('div', { class: 'refused' },
        node('strong', {}, since === null ? 'The file on disk is refused' : `The file on disk is refused for ${since}`),
        node('ul', {}, ...config.problems.slice(0, 20).map((line) => node('li', {}, node('code', {}, line))))));
    }
    if (config.changes !== null) {
      const changes = config.changes.slice(0, 30).map((line) => node('li', {}, node('code', {}, line)));
      made.push(changes.length > 0 ? node('ul', { class: 'diff', 'aria-label': 'Last changes' }, ...changes)
        : empty('The last reload changed nothing.'));
    }
    if (daemon.notes.length > 0) made.push(node('ul', { class: 'diff' }, ...daemon.notes.map((note) => node('li', {}, note))));
    return made;
  });
}

function showSchedules({ schedules, now }) {
  const shown = schedules.slice(0, MOST_CHANGES).map((change) => ({ ...change, in: span(between(now, change.at)) }));
  fill(byId('schedules'), shown, () => (shown.length === 0 ? [empty('No schedules in this config.')]
    : [node('ul', {}, ...shown.map(({ limit, at, what, in: left }) => node('li', { class: 'pair' },
      node('span', {}, node('strong', {}, limit), ` ${what}`),
      node('span', { class: 'muted', title: at }, `in ${left}`, node('br'), clock(at)))))]));
}

function showDaemons({ report, daemon }) {
  const daemons = report?.daemons ?? [];
  say(byId('daemon-count'), report ? `${count(daemons.length)} alive` : '');
  const shown = daemons.map((row) => ({ ...row, lag: millis(row.lag_ms) }));
  shown.sort((one, other) => (other.id === daemon.id) - (one.id === daemon.id) || (one.id < other.id ? -1 : 1));
  fill(byId('daemons'), shown, () => (shown.length === 0 ? [empty(report?.health === 'undecided' ? 'Redis does not tell.' : 'None is alive. Workers decide by script.')]
    : [node('ul', {}, ...shown.map((row) => node('li', {},
      node('p', {}, node('code', {}, row.id), row.id === daemon.id ? node('span', { class: 'muted' }, ' this one') : null),
      node('p', { class: 'sub' }, `config ${row.config}, version ${row.version}`),
      node('p', { class: 'sub' }, `lag ${row.lag}, ${count(row.credited)} buckets credited`),
      row.config_refused ? node('p', { class: 'error small' }, `refuses its file: ${row.config_refused}`) : null)))]));
}
