// What the page is tested on: daemons with a Redis of their own, workers under load, a browser.

import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const { CHROMIUM, PROGRAMS, FOLDER, SHOTS } = process.env;
/** The longest wait for anything. */
export const SOON = 30_000;
export const TOKEN = '0123456789abcdef-page';

const children = [];
const folder = mkdtempSync(join(tmpdir(), 'topup-page-'));

/** A child process whose lines can be awaited. */
class Child {
  lines = [];
  #waiting = [];

  constructor(program, args, env = {}) {
    this.process = spawn(join(PROGRAMS, program), args, { env: { ...process.env, NO_COLOR: '1', ...env } });
    children.push(this);
    let rest = '';
    const take = (bytes) => {
      const lines = (rest + bytes).split('\n');
      rest = lines.pop();
      this.lines.push(...lines);
      this.#waiting.forEach((look) => look());
    };
    this.process.stderr.on('data', take);
    this.process.stdout.on('data', take);
    this.ended = new Promise((end) => { this.process.on('exit', end); });
  }

  /** The first line with `text` in it. */
  async line(text) {
    const found = new Promise((resolve) => {
      const look = () => {
        const line = this.lines.find((known) => known.includes(text));
        if (line) resolve(line);
      };
      this.#waiting.push(look);
      look();
    });
    const late = new Promise((_, reject) => {
      setTimeout(() => reject(new Error(`no line with ${text}:\n${this.lines.join('\n')}`)), SOON).unref();
    });
    return Promise.race([found, late, this.ended.then(() => { throw new Error(`ended:\n${this.lines.join('\n')}`); })]);
  }

  signal(name) { this.process.kill(name); }

  async stop() {
    this.signal('SIGCONT');
    this.signal('SIGTERM');
    await this.ended;
  }
}

/** A daemon with a config file. */
export class Daemon extends Child {
  static number = 0;
  static all = [];

  constructor(config, { redis = null, name = `config-${Daemon.number += 1}.toml` } = {}) {
    const file = join(folder, name);
    writeFileSync(file, config);
    super('topupd', ['run', '--config', file, ...(redis ? [] : ['--embedded'])], redis ? { TOPUP_REDIS_URL: redis } : {});
    this.file = file;
    Daemon.all.push(this);
  }

  /** The URL of its page. */
  async page() {
    return `http://${(await this.line('listens on ')).split('listens on ')[1].trim()}/`;
  }

  async redis() {
    return (await this.line('embedded Redis on ')).split('embedded Redis on ')[1].split(';')[0];
  }

  /** The process of its Redis. */
  redisProcess() {
    return Number(spawnSync('pgrep', ['-P', String(this.process.pid), 'redis-server']).stdout.toString().trim());
  }

  reload(config) {
    writeFileSync(`${this.file}.new`, config);
    renameSync(`${this.file}.new`, this.file);
    this.signal('SIGHUP');
  }
}

/** Workers that take as `streams` say. */
export async function traffic(redis, ...streams) {
  const child = new Child('traffic', [redis, ...streams]);
  await child.line('ready');
  return child;
}

/** A file with the token. */
export function tokenFile() {
  const file = join(folder, 'token');
  writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 });
  return file;
}

export async function openBrowser() {
  const { chromium } = createRequire(join(FOLDER, 'node_modules', 'x'))('playwright-core');
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'];
  return chromium.launch({ executablePath: CHROMIUM, args });
}

/** Where a screenshot goes. */
export function shot(name) {
  mkdirSync(SHOTS, { recursive: true });
  return join(SHOTS, `${name}.png`);
}

/** Ends what was started. */
export async function cleanUp() {
  await Promise.all(children.map((child) => child.process.exitCode ?? child.stop()));
  rmSync(folder, { recursive: true, force: true });
}

/** Waits until `look` returns something, and returns that. */
export async function eventually(what, look) {
  const until = Date.now() + SOON;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > until) throw new Error(`never: ${what}`);
    await new Promise((resume) => { setTimeout(resume, 100); });
  }
}
