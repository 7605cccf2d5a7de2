// The table of limits. Rows stay where they are and change in place.

import { pauseButtons } from './actions.js';
import { byId, facts, fill, keyNode, meter, node, say } from './dom.js';
import { Series, Spark } from './spark.js';
import { count, many, perSecond, rate, span } from './units.js';

/** Most rows at first: a page with a thousand charts would be slow. */
const MOST = 100;
/** The share of denied takes that stands out. */
const MUCH = 0.1;
const COUNTS = {
  allowed: 'allowed', denied: 'denied', would_deny: 'denied in shadow', degraded: 'by outage policy', undecided: 'undecided',
};

const rows = new Map();
const pasts = new Map();
let most = MOST;
let latest = { limits: [], now: 0 };
let look = () => {};

/** Listens to the controls. `lookUp` is called with the name of a limit. */
export function start(lookUp) {
  look = lookUp;
  byId('filter').addEventListener('input', arrange);
  byId('sort').addEventListener('change', arrange);
  byId('show-all').addEventListener('click', () => { most = Infinity; arrange(); });
}

/** The history of all limits. */
export function showPast(past, now) {
  pasts.clear();
  for (const [name, values] of Object.entries(past.limits)) {
    const series = new Series();
    series.points = values.map((both, i) => ({ at: now - (values.length - i) * past.step_s, values: both }));
    pasts.set(name, series);
  }
}

export function showLimits(news, now) {
  const limits = news.report?.limits ?? [];
  const isSilent = news.report?.health === 'undecided' && limits.length === 0;
  // What was known stays, marked as old.
  if (isSilent && rows.size > 0) return;
  latest = { limits, now, news, isSilent };
  const names = new Set(limits.map(({ name }) => name));
  for (const limit of limits) {
    if (!pasts.has(limit.name)) pasts.set(limit.name, new Series());
    pasts.get(limit.name).add(now, [limit.allowed_per_second, limit.denied_per_second]);
  }
  for (const name of [...rows.keys()].filter((known) => !names.has(known))) {
    rows.get(name).remove();
    rows.delete(name);
    pasts.delete(name);
  }
  arrange();
}

/** Puts the rows in order, and fills those that show. */
function arrange() {
  const { limits, now, news, isSilent } = latest;
  const wanted = byId('filter').value.trim().toLowerCase();
  const field = { denied: 'denied_per_second', allowed: 'allowed_per_second' }[byId('sort').value];
  const found = limits.filter(({ name }) => name.toLowerCase().includes(wanted));
  if (field) found.sort((one, other) => (other[field] ?? 0) - (one[field] ?? 0) || (one.name < other.name ? -1 : 1));
  const shown = found.slice(0, most);
  const keep = new Set(shown.map(({ name }) => name));
  for (const [name, row] of rows) if (!keep.has(name)) row.remove();
  let before = null;
  for (const limit of shown) {
    if (!rows.has(limit.name)) rows.set(limit.name, new Row(limit.name));
    const row = rows.get(limit.name);
    row.placeAfter(before);
    row.show(limit, now, news);
    before = row.last;
  }
  say(byId('limit-count'), wanted ? `${count(found.length)} of ${count(limits.length)}` : count(limits.length));
  const nothing = byId('no-limits');
  nothing.hidden = shown.length > 0;
  for (const part of document.querySelectorAll('.table, .limits .fine')) part.hidden = shown.length === 0;
  say(nothing, isSilent ? 'Redis does not tell its limits.'
    : wanted ? 'No limit has this in its name.'
      : 'No limit is published. A config has them as [limit.NAME]; a reload publishes them.');
  byId('more').hidden = found.length <= most;
  say(byId('show-all'), `Show all ${count(found.length)} limits`);
}

class Row {
  #open = false;
  #parts = {
    name: node('button', { type: 'button', class: 'name', 'aria-expanded': 'false' }),
    kind: node('p', { class: 'sub' }), badges: node('p', { class: 'badges' }),
    rate: node('p', { class: 'figure' }), holds: node('p', { class: 'sub' }),
    allowed: node('span'), of: node('small'), denied: node('p', { class: 'figure' }),
    fill: node('p', { class: 'figure' }), fillSub: node('p', { class: 'sub' }), meter: meter(0),
  };
  #sparks = [new Spark(0), new Spark(1, 'is-bad')];
  #detail = node('tr', { class: 'detail', role: 'row', hidden: true });
  #about = node('div', { class: 'parts' });
  #buttons = node('div', { class: 'buttons' });

  constructor(name) {
    this.name = name;
    const parts = this.#parts;
    const cell = (label, ...children) => node('td', { role: 'cell', 'data-label': label }, ...children);
    say(parts.name, name);
    this.row = node('tr', { class: 'limit-row', role: 'row' },
      node('td', { role: 'cell' }, parts.name, parts.kind, parts.badges),
      cell('Terms', parts.rate, parts.holds),
      cell('Allowed', node('p', { class: 'figure' }, parts.allowed, ' ', parts.of), this.#sparks[0].element),
      cell('Denied', parts.denied, this.#sparks[1].element),
      cell('Fill', parts.fill, parts.fillSub, parts.meter));
    this.row.lastChild.classList.add('fill');
    this.#detail.append(node('td', { colspan: '5', role: 'cell' }, this.#about, this.#buttons));
    this.row.addEventListener('click', ({ target }) => {
      // Text of a row can be selected, to be copied.
      const selection = getSelection();
      const selects = selection.type === 'Range' && this.row.contains(selection.anchorNode);
      if (target === parts.name || !selects) this.#toggle();
    });
  }

  get last() { return this.#detail; }

  remove() {
    this.row.remove();
    this.#detail.remove();
  }

  placeAfter(before) {
    const table = byId('rows');
    const next = before ? before.nextSibling : table.firstChild;
    if (next !== this.row) table.insertBefore(this.row, next);
    if (this.row.nextSibling !== this.#detail) this.row.after(this.#detail);
  }

  #toggle() {
    this.#open = !this.#open;
    this.#parts.name.setAttribute('aria-expanded', String(this.#open));
    this.row.classList.toggle('is-open', this.#open);
    this.#detail.hidden = !this.#open;
    if (this.#open) this.#fillDetail();
  }

  show(limit, now, news) {
    this.limit = limit;
    this.news = news;
    const parts = this.#parts;
    const whole = limit.keyed ? null : limit.tokens_per_second;
    say(parts.kind, `${limit.algorithm}${limit.keyed ? ', keyed' : ''}`);
    const badges = badgesOf(limit, pausesOf(limit, news));
    fill(parts.badges, badges, () => badges.map((text) => node('span', { class: 'badge' }, text)));
    const each = limit.keyed ? ', per key' : '';
    if (hasPermits(limit)) {
      say(parts.rate, `${count(limit.capacity)} at once`);
      say(parts.holds, `${limit.rate}${each}`);
    } else {
      say(parts.rate, limit.rate ? rate(limit.rate) : 'by calendar');
      say(parts.holds, limit.parts ? `holds ${count(limit.capacity)}, in ${count(limit.parts.length)} parts`
        : `holds ${count(limit.capacity)}${each}`);
    }
    say(parts.allowed, perSecond(limit.allowed_per_second));
    say(parts.of, whole === null ? '' : `of ${rate(limit.rate)}`);
    say(parts.denied, perSecond(limit.denied_per_second));
    const takes = limit.allowed_per_second + limit.denied_per_second;
    parts.denied.classList.toggle('is-bad', limit.denied_per_second >= 0.05 && limit.denied_per_second >= takes * MUCH);
    const series = pasts.get(limit.name);
    this.#sparks[0].show(series, now, { rate: whole });
    this.#sparks[1].show(series, now);
    this.#showFill(limit);
    if (this.#open) this.#fillDetail();
  }

  #showFill(limit) {
    const { keyed, tokens, capacity, active, held, waiting } = limit;
    const parts = this.#parts;
    const isOne = !keyed && (held ?? tokens) !== null;
    parts.meter.toggleAttribute('hidden', !isOne);
    if (hasPermits(limit)) {
      say(parts.fill, held === null ? '–' : count(held));
      const of = keyed ? `permit${held === 1 ? '' : 's'} held, ${many(active ?? 0, 'key')}` : `of ${count(capacity)} permits held`;
      say(parts.fillSub, held === null ? 'not asked' : `${of}${waiting > 0 ? `, ${count(waiting)} waiting` : ''}`);
      if (isOne) parts.meter.set(held / capacity, waiting > 0);
    } else if (isOne) {
      say(parts.fill, count(tokens));
      say(parts.fillSub, `of ${count(capacity)} tokens`);
      parts.meter.set(tokens / capacity);
    } else if (limit.parts) {
      const lent = limit.parts.reduce((sum, part) => sum + part.lent, 0);
      say(parts.fill, count(limit.parts.reduce((sum, part) => sum + part.tokens, 0)));
      say(parts.fillSub, `tokens in parts${lent > 0 ? `, ${count(lent)} lent` : ''}`);
    } else {
      const none = keyed ? 'not counted' : 'not asked';
      say(parts.fill, active !== null && keyed ? count(active) : '–');
      say(parts.fillSub, active !== null && keyed ? `active bucket${active === 1 ? '' : 's'}` : none);
    }
  }

  #fillDetail() {
    const { limit, news } = this;
    const shown = [limit.counts, limit.owners, limit.defined_until, limit.candidate, limit.top_denied, limit.open_holds, limit.parts];
    fill(this.#about, shown, () => detailOf(limit));
    const pause = pauseOf(limit, news);
    const focused = this.#buttons.contains(document.activeElement);
    fill(this.#buttons, [Boolean(pause), news.may_act], () => [
      node('button', { type: 'button', onclick: () => look(limit.name) }, 'Look up a bucket'),
      ...pauseButtons(limit, pause, news.may_act)]);
    // The button that had the focus may be gone.
    if (focused && !this.#buttons.contains(document.activeElement)) this.#buttons.lastChild.focus();
  }
}

const hasPermits = ({ algorithm }) => algorithm === 'concurrency';

/** Pauses of a limit and of its keys. */
const pausesOf = ({ name }, { report }) => (report.pauses ?? []).filter(({ limit }) => limit === name);
/** The pause of a whole limit, if there is one. */
const pauseOf = (limit, news) => pausesOf(limit, news).find(({ key }) => key === null);

function badgesOf({ mode, enforce_percent: share, orphaned, candidate, defined_until: until }, pauses) {
  const whole = pauses.find(({ key }) => key === null);
  const keys = pauses.length - (whole ? 1 : 0);
  return [
    whole ? `paused for ${span(whole.left_ms / 1000)}` : null,
    keys > 0 ? `${count(keys)} key${keys === 1 ? '' : 's'} paused` : null,
    mode === 'enforce' ? null : mode,
    mode === 'enforce' && share < 100 ? `enforced for ${share} %` : null,
    orphaned ? 'orphaned' : null,
    until ? 'by code' : null,
    candidate ? 'candidate' : null,
  ].filter(Boolean);
}

function detailOf(limit) {
  const part = (title, ...children) => node('div', {}, node('h3', {}, title), ...children);
  const counts = Object.entries(COUNTS).filter(([name]) => limit.counts?.[name] !== undefined);
  const owners = limit.owners.map(({ config, alive, since }) => node('li', {}, node('code', {}, config),
    alive ? '' : `, no daemon${since ? ` since ${since}` : ''}`,
    limit.defined_until ? `, by code, until ${limit.defined_until}` : ''));
  return [
    part('Takes since the limit last changed', counts.length > 0
      ? facts(counts.map(([name, word]) => [word, count(limit.counts[name])]), 'counts')
      : node('p', { class: 'empty' }, 'Redis does not tell'),
    limit.open_holds === null ? null : facts([['open holds now', count(limit.open_holds)]], 'counts now')),
    part('Held by', owners.length > 0 ? node('ul', {}, ...owners) : node('p', { class: 'empty' }, 'no config')),
    limit.candidate ? part('Candidate', facts([['rate', limit.candidate.rate ?? '–'],
      ['holds', count(limit.candidate.capacity)],
      ['would allow', count(limit.counts?.candidate_allowed ?? 0)],
      ['would deny', count(limit.counts?.candidate_denied ?? 0)]], 'counts')) : null,
    limit.top_denied?.keys?.length > 0 ? part('Most denied keys', node('ul', {}, ...limit.top_denied.keys.slice(0, 5)
      .map(({ key, denied }) => node('li', { class: 'pair' }, keyNode(key), node('span', {}, count(denied)))))) : null,
    limit.parts?.length > 0 ? sharesOf(limit.parts) : null,
  ];
}

/** The parts of a limit with fair shares: what each is sure of, has, and is lent. */
function sharesOf(parts) {
  const share = ({ part, capacity, tokens_per_second: sure, tokens, lent }) => {
    const bar = meter(tokens / capacity);
    return node('li', {},
      node('p', { class: 'pair' },
        node('span', {}, node('strong', {}, keyNode(part)), part === '*' ? node('span', { class: 'muted' }, ' other keys') : null),
        node('span', {}, `${count(tokens)} of ${count(capacity)}`)),
      bar,
      node('p', { class: 'sub' }, `sure of ${perSecond(sure)}${lent > 0 ? `, ${count(lent)} lent to it` : ''}`));
  };
  return node('div', { class: 'shares' }, node('h3', {}, 'Parts, and tokens of their own'),
    node('ul', {}, ...parts.map(share)));
}
