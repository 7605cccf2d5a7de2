// One bucket, by its limit and key.

import { act } from './actions.js';
import { byId, fill, keyNode, keyText, meter, node } from './dom.js';
import { headers } from './news.js';
import { count, millis } from './units.js';

let limits = [];
let mayAct = false;
/** What is looked at, and the number of the question. */
let asked = null;
let number = 0;

export function start() {
  byId('look').addEventListener('submit', (event) => {
    event.preventDefault();
    lookUp(byId('look-limit').value, byId('look-key').value);
  });
  byId('look-limit').addEventListener('change', fitKey);
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target.closest?.('input, select, textarea, dialog');
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    focusKey();
  });
}

/** Learns the limits, and looks again at the bucket that shows. */
export function showBuckets({ report, may_act: may }) {
  mayAct = may;
  limits = report?.limits ?? limits;
  const select = byId('look-limit');
  const names = limits.map(({ name }) => name);
  const chosen = select.value;
  fill(select, names, () => names.map((name) => node('option', { value: name }, name)));
  const keyed = limits.find((limit) => limit.keyed)?.name ?? names[0];
  if (select.value !== chosen || chosen === '') select.value = names.includes(chosen) ? chosen : keyed ?? '';
  fitKey();
  byId('look').querySelector('button').disabled = names.length === 0;
  if (asked) look();
}

/** Chooses a limit, and waits for its key or looks at the key that is given. */
export function choose(limit, key = null) {
  byId('look-limit').value = limit;
  fitKey();
  if (key !== null) byId('look-key').value = key;
  if (key !== null || !isKeyed(limit)) lookUp(limit, key ?? '');
  else focusKey();
  byId('look').scrollIntoView({ block: 'nearest' });
}

const isKeyed = (limit) => limits.find(({ name }) => name === limit)?.keyed ?? false;
const hasPermits = (limit) => limits.find(({ name }) => name === limit)?.algorithm === 'concurrency';

function focusKey() {
  const key = byId('look-key');
  (key.disabled ? byId('look-limit') : key).focus();
  if (!key.disabled) key.select();
}

function fitKey() {
  const keyed = isKeyed(byId('look-limit').value);
  byId('look-key').disabled = !keyed;
  if (!keyed) byId('look-key').value = '';
  byId('look-key').placeholder = keyed ? 'such as a user or an address' : 'one bucket for all';
}

function lookUp(limit, key) {
  if (limit === '') return;
  if (isKeyed(limit) && key === '') { focusKey(); return; }
  asked = { limit, key: isKeyed(limit) ? key : null };
  look();
}

async function look() {
  number += 1;
  const [mine, { limit, key }] = [number, asked];
  const name = encodeURIComponent(limit);
  const path = key === null ? `/buckets/${name}` : `/buckets/${name}?key=${encodeURIComponent(key)}`;
  let answer;
  try {
    const response = await fetch(path, { headers: headers(), cache: 'no-store' });
    const text = await response.text();
    answer = text.startsWith('{') ? JSON.parse(text) : { error: text.trim() };
  } catch {
    answer = { error: 'no answer' };
  }
  if (mine === number) show(limit, key, answer);
}

function show(limit, key, answer) {
  const box = byId('bucket');
  if (box.contains(document.activeElement) && box.shown?.includes(JSON.stringify([limit, key]))) {
    // A button that has the focus is not replaced.
    update(box, answer);
    return;
  }
  fill(box, [[limit, key], answer, mayAct], () => {
    const title = node('p', {}, node('strong', {}, limit), ' ', key === null ? null : keyNode(key));
    if (answer.error) return [title, node('p', { class: 'error' }, answer.error)];
    const made = [title, node('p', { class: 'amount' }), meter(0), node('p', { class: 'verdict-line' })];
    // Permits come back when they are released, never by hand.
    if (mayAct && !hasPermits(limit)) {
      const what = key === null ? `The bucket of ${limit} is full at once.`
        : `The bucket of key ${keyText(key)} of ${limit} is full at once.`;
      const reset = () => act({
        title: 'Reset this bucket?', what, verb: 'Reset', path: '/actions/reset', body: () => ({ limit, key }),
        done: (bucket) => show(limit, key, bucket),
      });
      made.push(node('button', { type: 'button', onclick: reset }, 'Reset…'));
    }
    queueMicrotask(() => update(box, answer));
    return made;
  });
}

function update(box, answer) {
  const [amount, bar, verdict] = ['.amount', '.meter', '.verdict-line'].map((name) => box.querySelector(name));
  if (answer.error || !amount) return;
  const { limit, tokens, capacity, would_deny: denies, retry_after_ms: wait, mode, paused } = answer;
  const permits = hasPermits(limit);
  amount.replaceChildren(count(tokens), node('small', { class: 'muted' }, ` of ${count(capacity)} ${permits ? 'permits free' : 'tokens'}`));
  bar.set(tokens / capacity);
  const off = { off: ' The limit is off.', shadow: ' The limit is in shadow: no take is denied.' }[mode] ?? '';
  verdict.textContent = (paused ? `Paused for ${millis(wait)}: a take now would be denied.`
    : denies && permits ? `No permit is free. The first lease ends in ${millis(wait)} if nobody renews it.`
    : permits ? 'A permit is free.'
    : denies ? `A take now would be denied. The next token comes in ${millis(wait)}.`
    : 'A take now would be allowed.') + off;
  verdict.className = `verdict-line ${denies ? 'says-no' : 'says-yes'}`;
}
