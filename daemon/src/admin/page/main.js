// Puts the page together: what comes goes to each part.

import { start as startActions } from './actions.js';
import { showSidebar } from './sidebar.js';
import { choose, showBuckets, start as startBuckets } from './bucket.js';
import { byId, say } from './dom.js';
import { showHealth, showPast as showPastLag } from './health.js';
import { showLimits, showPast as showPastLimits, start as startLimits } from './limits.js';
import { follow, keepToken } from './news.js';

const now = () => performance.now() / 1000;

function show(news) {
  byId('main').hidden = false;
  const { report, daemon } = news;
  const namespace = report && report.namespace !== 'topup' ? `, namespace ${report.namespace}` : '';
  say(byId('place'), report ? `${report.redis}${namespace}, generation ${daemon.generation}` : '');
  showHealth(news, now());
  showLimits(news, now());
  showBuckets(news);
  showSidebar(news, choose);
}

function state(what, seconds, reason) {
  const isLost = what === 'lost';
  byId('link').dataset.state = what;
  say(byId('link-text'), isLost ? 'no news' : 'live');
  byId('stale').hidden = !isLost;
  document.body.classList.toggle('is-stale', isLost);
  if (isLost) say(byId('stale'), `No news for ${seconds} s: what is below is old. ${reason || 'Connecting again.'}`);
}

/** Shows the form for the token until there is one. */
function unauthorized(wasRefused) {
  const form = byId('token-form');
  byId('main').hidden = true;
  form.hidden = false;
  say(byId('token-error'), wasRefused ? 'The server does not know this token.' : '');
  keepToken(null);
  byId('token').focus();
  state('waiting');
  say(byId('link-text'), 'token needed');
  return new Promise((resume) => {
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      keepToken(byId('token').value);
      byId('token').value = '';
      form.hidden = true;
      resume();
    }, { once: true });
  });
}

startActions();
startBuckets();
startLimits(choose);
follow({
  past(past) {
    showPastLag(past, now());
    showPastLimits(past, now());
  },
  news: show,
  state,
  unauthorized,
});
