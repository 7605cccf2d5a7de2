// The page of the admin server in a real browser. scripts/test-page runs it.

import assert from 'node:assert/strict';
import { SOON, TOKEN, Daemon, cleanUp, eventually, openBrowser, shot, tokenFile, traffic } from './world.mjs';

const HOSTILE = '<script>document.title="owned"</script><img src=x onerror=alert(1)>';
const LIMITS = `
[limit.api]
capacity = 2000
rate = "1000/s"
[limit.chat]
capacity = 200
rate = "1/min"
on_abandon = "refund"
[limit.gateway]
keyed = true
share = "borrow"
capacity = 400
rate = "200/s"
parts = { acme = 3, "free-*" = 1, "*" = 1 }
[limit.login]
keyed = true
capacity = 5
rate = "5/min"
[limit.night]
capacity = 100
rate = "50/s"
mode = "shadow"
[[limit.night.schedule]]
cron = "0 0 22 * * *"
rate = "200/s"
[[limit.night.schedule]]
cron = "0 0 6 * * *"
rate = "50/s"
[limit.render]
algorithm = "concurrency"
limit = 6
ttl = "5s"
[limit.report]
algorithm = "fixed-window"
limit = 7
window = "1h"
[limit.user]
keyed = true
capacity = 20
rate = "10/s"
top_keys = 20
`;
const admin = () => `[admin]\nlisten = "127.0.0.1:0"\ntoken_file = "${tokenFile()}"\n`;
const PHONE = { width: 390, height: 844 };
const DESK = { width: 1280, height: 900 };

let browser;
/** What the console and the network said that they should not have. */
const complaints = [];
let passed = 0;

async function step(name, check) {
  const began = Date.now();
  await check();
  passed += 1;
  console.log(`ok ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
}

async function open(url, { viewport = DESK, colorScheme = 'light', ...more } = {}) {
  const context = await browser.newContext({ viewport, colorScheme, ...more });
  context.setDefaultTimeout(SOON);
  const page = await context.newPage();
  const expected = [];
  page.expect = (text) => expected.push(text);
  const complain = (text) => { if (!expected.some((known) => text.includes(known))) complaints.push(text); };
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) complain(message.text()); });
  page.on('pageerror', (error) => complain(`error: ${error.message}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) complain(`asked ${request.url()}`);
  });
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (event) => window.violations.push(event.violatedDirective));
  });
  await page.goto(url);
  return page;
}

const row = (page, limit) => page.locator('.limit-row', { has: page.getByRole('button', { name: limit, exact: true }) });
const detail = (page, limit) => row(page, limit).locator('xpath=following-sibling::tr[1]');
const perSecond = (text) => Number(text.replace(/[^0-9.]/g, ''));
const text = (page, selector) => page.locator(selector).innerText();
const has = (page, selector, wanted) => eventually(`${wanted} in ${selector}`, async () => {
  const shown = await text(page, selector);
  return (wanted instanceof RegExp ? wanted.test(shown) : shown.includes(wanted)) && shown;
});

async function lookUp(page, limit, key) {
  await page.locator('#look-limit').selectOption(limit);
  if (key !== null) await page.locator('#look-key').fill(key);
  await page.locator('#look').getByRole('button', { name: 'Look up' }).click();
}

async function main() {
  const daemon = new Daemon(admin() + LIMITS);
  const [redis, url] = [await daemon.redis(), await daemon.page()];
  await traffic(redis, 'api=700', 'user=150x100', 'user=60:alice', `user=40:${HOSTILE}`, 'night=90', 'report=1');
  await traffic(redis, 'api=600', 'user=150x100', 'login=3x20', 'render+9', 'chat-4', 'gateway=170:acme', 'gateway=10:free-1', 'gateway=5:x');
  browser = await openBrowser();
  const page = await open(url);

  await step('limits appear, and their rates move', async () => {
    await page.locator('.limit-row').nth(7).waitFor();
    const names = await page.locator('.limit-row .name').allInnerTexts();
    assert.deepEqual(names, ['api', 'chat', 'gateway', 'login', 'night', 'render', 'report', 'user']);
    await eventually('takes of api', async () => perSecond(await row(page, 'api').locator('td').nth(2).locator('span').innerText()) > 100);
    await eventually('denials of user', async () => perSecond(await row(page, 'user').locator('td').nth(3).innerText()) > 5);
    assert.match(await row(page, 'api').innerText(), /of 1,000\/s/);
    assert.match(await row(page, 'night').innerText(), /shadow/);
    assert.match(await row(page, 'api').innerText(), /of 2,000 tokens/);
    await eventually('a line in the chart', async () => (await row(page, 'api').locator('.spark .line').first().getAttribute('d'))?.length > 20);
    await has(page, '#health-word', 'Healthy');
    await has(page, '#schedules', /night.*rate/s);
    await has(page, '#daemons', 'this one');
    assert.match(await page.title(), /^Healthy/);
  });

  await step('permits, holds and parts are told', async () => {
    const fill = (limit) => row(page, limit).locator('td').nth(4);
    await eventually('all permits', async () => /^6\s+of 6 permits held, 3 waiting/.test((await fill('render').innerText()).trim()));
    assert.match(await row(page, 'render').innerText(), /6 at once\s+ttl 5s/);
    await lookUp(page, 'render', null);
    await has(page, '#bucket', /0 of 6 permits free\s+No permit is free\. The first lease ends in \d/);
    assert.equal(await page.getByRole('button', { name: 'Reset…' }).count(), 0);
    assert.match(await row(page, 'gateway').innerText(), /holds 400, in 3 parts/);
    for (const limit of ['chat', 'gateway']) await page.getByRole('button', { name: limit, exact: true }).click();
    const ofChat = () => detail(page, 'chat').innerText();
    await eventually('open holds', async () => /open holds now\s+4/.test(await ofChat()))
      .catch(async (error) => { throw new Error(`${error.message}: ${await ofChat()}`); });
    const shares = detail(page, 'gateway').locator('.shares li');
    assert.deepEqual(await shares.locator('strong').allInnerTexts(), ['acme', 'free-*', '*']);
    const [acme, , others] = await shares.allInnerTexts();
    assert.match(acme, /of 240\s+sure of 120\/s/);
    assert.match(others, /of 80\s+sure of 40\/s/);
    // Acme takes more than it is sure of, and less than the others leave: most of the time it has some of its loan left.
    await eventually('a loan', async () => /lent to it/.test((await shares.allInnerTexts())[0]));
    for (const limit of ['chat', 'gateway']) await page.getByRole('button', { name: limit, exact: true }).click();
    await page.locator('#look-limit').selectOption('user');
    await page.evaluate(() => document.activeElement.blur());
  });

  await step('a page that is opened later has a past', async () => {
    await eventually('history', async () => {
      const [later] = await page.evaluate(async () => {
        const reader = (await fetch('/events')).body.pipeThrough(new TextDecoderStream()).getReader();
        const { value } = await reader.read();
        await reader.cancel();
        return [JSON.parse(value.split('data: ')[1].split('\n')[0])];
      });
      return (later.limits.api ?? []).filter((both) => both?.[0] > 0).length >= 2;
    });
  });

  await step('the keyboard finds a bucket', async () => {
    await page.keyboard.press('/');
    await eventually('focus', () => page.locator('#look-key').evaluate((key) => key === document.activeElement));
    await page.locator('#look-limit').selectOption('user');
    await page.keyboard.press('/');
    await page.locator('#look-key').focus();
    await page.keyboard.type('alice');
    await page.keyboard.press('Enter');
    await has(page, '#bucket', 'of 20 tokens');
    await has(page, '#bucket', /denied|allowed/);
    // Through the whole page by Tab: the focus shows everywhere, and never hangs.
    const seen = new Set();
    await page.locator('.skip').focus();
    for (let i = 0; i < 30; i += 1) {
      seen.add(await page.evaluate(() => {
        const focused = document.activeElement;
        const { outlineStyle, outlineWidth } = getComputedStyle(focused);
        if (focused !== document.body && (outlineStyle === 'none' || outlineWidth === '0px')) throw new Error(`no outline: ${focused.outerHTML}`);
        return focused.id || focused.textContent;
      }));
      await page.keyboard.press('Tab');
    }
    for (const id of ['filter', 'sort', 'api', 'look-limit', 'look-key']) assert.ok(seen.has(id), `${id} of ${[...seen]}`);
    // A row opens and closes.
    const name = page.getByRole('button', { name: 'user', exact: true });
    await name.focus();
    await page.keyboard.press('Enter');
    await has(page, '.detail:not([hidden])', 'Takes since the limit last changed');
    assert.equal(await name.getAttribute('aria-expanded'), 'true');
  });

  await step('hostile keys are text', async () => {
    await lookUp(page, 'user', HOSTILE);
    await has(page, '#bucket .key', HOSTILE);
    await has(page, '#bucket', 'of 20 tokens');
    for (const [key, shown] of [['..', '..'], ['.', '.'], ['a/b c?d#e&f%2F+', 'a/b c?d#e&f%2F+'], ['\u202eevil', '\\u{202e}evil']]) {
      await lookUp(page, 'user', key);
      await eventually(`key ${key}`, async () => (await text(page, '#bucket .key')) === shown);
      await has(page, '#bucket', 'of 20 tokens');
    }
    // One that is denied often is among the most denied.
    await has(page, '#top', HOSTILE);
    assert.equal(await page.locator('#bucket img, #bucket script, #top img, #top script').count(), 0);
    await page.locator('#top').getByRole('button', { name: 'alice', exact: true }).click();
    await eventually('alice', async () => (await text(page, '#bucket .key')) === 'alice');
    assert.doesNotMatch(await page.title(), /owned/);
    await page.locator('#filter').fill('<b>');
    await has(page, '#no-limits', 'No limit has this');
    await page.locator('#filter').fill('us');
    await eventually('one limit', async () => (await page.locator('.limit-row').count()) === 1);
    await page.locator('#filter').fill('');
  });

  await step('actions want the token, and work with it', async () => {
    const post = (headers) => page.evaluate(async (more) => (await fetch('/actions/reset', {
      method: 'POST', headers: { 'Content-Type': 'application/json', ...more }, body: '{"limit":"report"}',
    })).status, headers);
    page.expect('401');
    assert.equal(await post({}), 401);
    assert.equal(await post({ Authorization: 'Bearer 0123456789abcdef-peng' }), 401);
    await eventually('report is empty', async () => /^0\b/.test((await row(page, 'report').locator('td').nth(4).innerText()).trim()));
    await row(page, 'report').click();
    await detail(page, 'report').getByRole('button', { name: 'Look up a bucket' }).click();
    await has(page, '#bucket', 'of 7 tokens');
    await page.getByRole('button', { name: 'Reset…' }).click();
    await page.locator('#confirm-token').fill('a wrong token of some length');
    await page.locator('#confirm-do').click();
    await has(page, '#confirm-error', 'does not know this token');
    await page.screenshot({ path: shot('confirm') });
    await page.locator('#confirm-token').fill(TOKEN);
    await page.locator('#confirm-do').click();
    await page.locator('#confirm').waitFor({ state: 'hidden' });
    await eventually('report has tokens', async () => perSecond((await row(page, 'report').locator('td').nth(4).innerText()).split('\n')[0]) > 0
      || /[1-7]\s*of 7/.test(await text(page, '#bucket')));
    assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length), 0);
  });

  await step('a limit is paused and resumed', async () => {
    const button = (name) => detail(page, 'report').getByRole('button', { name });
    await button('Pause…').click();
    await page.locator('#confirm-time').selectOption('300');
    await page.locator('#confirm-do').click();
    await page.locator('#confirm').waitFor({ state: 'hidden' });
    await eventually('paused', async () => /paused for/.test(await page.locator('.limit-row').allInnerTexts().then((all) => all.join())));
    await button('Resume…').click();
    await page.locator('#confirm-do').click();
    await page.locator('#confirm').waitFor({ state: 'hidden' });
    await eventually('resumed', async () => !/paused for/.test(await page.locator('.limit-row').allInnerTexts().then((all) => all.join())));
  });

  await step('a reload, and one that is refused, are told', async () => {
    const changed = LIMITS.replace('rate = "1000/s"', 'rate = "1200/s"');
    daemon.reload(admin() + changed);
    await has(page, '#config', 'limit api: rate 1000/s -> 1200/s');
    await eventually('the new rate', async () => (await row(page, 'api').innerText()).includes('1,200/s'));
    daemon.reload(`${admin()}${changed}capcity = 3\n`);
    await has(page, '#config', /config-1\.toml:\d+: limit\.user\.capcity: unknown key/);
    await has(page, '#config', 'refused for');
    await has(page, '#problems', 'refuses its config on disk');
    await has(page, '#problems', 'topupd check');
    await has(page, '#health-word', 'Degraded');
    daemon.reload(admin() + changed);
    await has(page, '#health-word', 'Healthy');
    daemon.reload(`${admin()}${changed}capcity = 3\n`);
  });

  const other = new Daemon('name = "shop2"\n[limit.api]\ncapacity = 7\nrate = "1/s"\n', { redis });
  await step('a conflict is told', async () => {
    await has(page, '#problems', 'limit api is refused to config shop2');
    await has(page, '#daemon-count', '2 alive');
  });

  await step('it fits desk and phone, light and dark, and every text has contrast', async () => {
    for (const [name, viewport] of [['desk', DESK], ['phone', PHONE]]) {
      for (const colorScheme of ['light', 'dark']) {
        const shown = await open(url, { viewport, colorScheme, reducedMotion: 'reduce', hasTouch: name === 'phone' });
        await shown.locator('.limit-row').nth(7).waitFor();
        for (const limit of ['gateway', 'user']) await row(shown, limit).locator('.name').click();
        await lookUp(shown, 'user', 'alice');
        await has(shown, '#bucket', 'of 20 tokens');
        await shown.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
        const [wide, poor] = await shown.evaluate(contrast);
        assert.ok(wide <= viewport.width, `${name}: ${wide} px wide`);
        assert.deepEqual(poor, [], `${name} ${colorScheme}`);
        await shown.screenshot({ path: shot(`${name}-${colorScheme}`), fullPage: true });
        assert.deepEqual(await shown.evaluate(() => window.violations), []);
        await shown.context().close();
      }
    }
  });
  await other.stop();

  await step('a lost stream is said, and comes back', async () => {
    daemon.signal('SIGSTOP');
    const said = await has(page, '#stale', /No news for \d+ s/);
    assert.match(said, /old/);
    await page.screenshot({ path: shot('lost') });
    daemon.signal('SIGCONT');
    await page.locator('#stale').waitFor({ state: 'hidden' });
    await has(page, '#link', 'live');
  });

  await step('a Redis that is away is told', async () => {
    const process_ = daemon.redisProcess();
    page.expect('503');
    process.kill(process_, 'SIGSTOP');
    try {
      await has(page, '#health-word', 'Redis is away');
      await has(page, '#problems', /does not answer in time/);
      assert.ok(await page.locator('#stale').isHidden());
      await page.screenshot({ path: shot('away') });
    } finally {
      process.kill(process_, 'SIGCONT');
    }
    await has(page, '#health-word', 'Degraded');
  });

  await step('a server for other machines shows nothing without the token', async () => {
    const remote = new Daemon(admin().replace('127.0.0.1:0', '0.0.0.0:0') + LIMITS, { redis });
    const guarded = await open((await remote.page()).replace('0.0.0.0', '127.0.0.1'));
    guarded.expect('401');
    await has(guarded, '#token-form', 'asks for its token');
    assert.ok(await guarded.locator('#main').isHidden());
    await guarded.locator('#token').fill('a wrong token of some length');
    await guarded.keyboard.press('Enter');
    await has(guarded, '#token-error', 'does not know');
    await guarded.screenshot({ path: shot('token') });
    await guarded.locator('#token').fill(TOKEN);
    await guarded.keyboard.press('Enter');
    await guarded.locator('.limit-row').nth(4).waitFor();
    await guarded.context().close();
    await remote.stop();
  });

  await step('a daemon without limits says so', async () => {
    const bare = new Daemon('[admin]\nlisten = "127.0.0.1:0"\n');
    const shown = await open(await bare.page());
    await has(shown, '#no-limits', 'No limit is published');
    await shown.screenshot({ path: shot('empty'), fullPage: true });
    await shown.context().close();
    await bare.stop();
  });

  await step('the console is silent, and nothing else was asked', async () => {
    assert.deepEqual(await page.evaluate(() => window.violations), []);
    assert.deepEqual(complaints.filter((said) => !/net::ERR/.test(said)), []);
  });
}

/** In the page: its width, and texts with less contrast than 4.5 to what is behind them. */
function contrast() {
  const channel = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const numbers = (color) => color.match(/[\d.]+/g).map(Number);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = numbers(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll('main *, header *')) {
    const own = [...element.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !element.checkVisibility() || element.disabled || element instanceof SVGElement) continue;
    const [one, other] = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) poor.push(`${element.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return [document.documentElement.scrollWidth, poor];
}

try {
  await main();
  console.log(`${passed} passed, 0 failed`);
} catch (error) {
  console.error(error);
  console.error(Daemon.all.map((daemon) => daemon.lines.slice(-12).join('\n')).join('\n--\n'));
  console.log(`${passed} passed, 1 failed`);
  process.exitCode = 1;
} finally {
  await browser?.close();
  await cleanUp();
}
