// Changes by hand: each is confirmed, and carries the token.

import { byId, node, say } from './dom.js';
import { hasToken, headers, keepToken } from './news.js';

let current = null;

export function start() {
  const dialog = byId('confirm');
  byId('confirm-cancel').addEventListener('click', () => dialog.close());
  byId('confirm-form').addEventListener('submit', (event) => {
    event.preventDefault();
    send();
  });
}

/** Asks whether to do something, and does it: `{title, what, verb, path, body, done, timed}`. */
export function act(action) {
  current = action;
  say(byId('confirm-title'), action.title);
  say(byId('confirm-what'), action.what);
  say(byId('confirm-do'), action.verb);
  say(byId('confirm-error'), '');
  byId('confirm-token').value = '';
  byId('confirm-time-row').hidden = !action.timed;
  askToken(!hasToken());
  byId('confirm').showModal();
  byId(hasToken() ? 'confirm-cancel' : 'confirm-token').focus();
}

function askToken(is) {
  byId('confirm-token-row').hidden = !is;
  byId('confirm-token').required = is;
}

async function send() {
  const [button, given] = [byId('confirm-do'), byId('confirm-token')];
  if (!byId('confirm-token-row').hidden) keepToken(given.value);
  button.disabled = true;
  try {
    const response = await fetch(current.path, {
      method: 'POST',
      headers: { ...headers(), 'Content-Type': 'application/json' },
      body: JSON.stringify(current.body(Number(byId('confirm-time').value))),
    });
    const text = await response.text();
    if (response.ok) {
      byId('confirm').close();
      current.done?.(JSON.parse(text));
      return;
    }
    if (response.status === 401) {
      keepToken(null);
      askToken(true);
      given.focus();
      say(byId('confirm-error'), 'The server does not know this token.');
      return;
    }
    say(byId('confirm-error'), text.startsWith('{') ? JSON.parse(text).error : text.trim());
  } catch {
    say(byId('confirm-error'), 'No answer: it may have been done all the same.');
  } finally {
    button.disabled = false;
  }
}

/** Buttons to pause and to resume a limit, which `pause` of the report may have paused. */
export function pauseButtons({ name }, pause, mayAct) {
  if (!mayAct) return [];
  const button = (text, action) => node('button', { type: 'button', onclick: () => act(action) }, text);
  const buttons = [button('Pause…', {
    title: `Pause ${name}?`, what: `Workers take no tokens of ${name} until then. Takes are denied or wait.`,
    verb: 'Pause', path: '/actions/pause', body: (seconds) => ({ limit: name, for_s: seconds }), timed: true,
  })];
  if (pause) {
    buttons.push(button('Resume…', {
      title: `Resume ${name}?`, what: 'Workers take again within half a second. Paused keys stay paused.',
      verb: 'Resume', path: '/actions/resume', body: () => ({ limit: name }),
    }));
  }
  return buttons;
}
