// The stream of news. Fetched, not an EventSource: only so can it carry the token.

/** The stream is lost if nothing has come for so many ms. */
const LOST = 5000;
/** The stream is begun anew if nothing has come for so many ms. */
const GIVEN_UP = 8000;
const RETRY = 1000;

let token = null;
/** What the server has told of each limit. */
const known = new Map();

/** Keeps the token, in memory only. */
export const keepToken = (given) => { token = given; };
export const hasToken = () => token !== null;
export const headers = () => (token === null ? {} : { Authorization: `Bearer ${token}` });

/** News with all limits in their report, from news with those that have changed. */
function withLimits({ whole, limits, gone, ...news }) {
  if (whole) known.clear();
  for (const name of gone) known.delete(name);
  for (const limit of limits) known.set(limit.name, limit);
  const all = [...known.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
  return { ...news, report: news.report && { ...news.report, limits: all } };
}

/** Calls `on.past` and `on.news` with what comes, `on.state` with live, lost or refused, forever. */
export async function follow(on) {
  let heard = performance.now();
  let abort = new AbortController();
  let reason = '';
  let waits = false;
  setInterval(() => {
    const silent = performance.now() - heard;
    if (waits) return;
    if (silent > LOST) on.state('lost', Math.floor(silent / 1000), reason);
    if (silent > GIVEN_UP && silent % GIVEN_UP < 500) abort.abort();
  }, 500);
  const take = (name, data) => {
    [heard, reason] = [performance.now(), ''];
    const told = JSON.parse(data);
    on[name]?.(name === 'news' ? withLimits(told) : told);
    if (name === 'news') on.state('live');
  };
  for (;;) {
    abort = new AbortController();
    try {
      const answer = await fetch('/events', { headers: headers(), signal: abort.signal, cache: 'no-store' });
      if (answer.status === 401) {
        waits = true;
        await on.unauthorized(hasToken());
        [waits, heard] = [false, performance.now()];
        continue;
      }
      if (answer.ok) await read(answer.body, take);
      else reason = (await answer.text()).trim();
    } catch {
      // The next attempt tells.
    }
    await new Promise((resume) => { setTimeout(resume, RETRY); });
  }
}

/** Reads server-sent events to the end of the stream. */
async function read(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const fields = new Map(text.slice(0, end).split('\n').map((line) => line.split(/: (.*)/s)));
      text = text.slice(end + 2);
      if (fields.has('data')) take(fields.get('event'), fields.get('data'));
    }
  }
}
