// A worker in Node: rate-limiter-flexible over ioredis. Speaks as src/worker.rs describes.
"use strict";

const { createRequire } = require("node:module");
const path = require("node:path");
const { parseArgs } = require("node:util");
const { performance } = require("node:perf_hooks");

const text = { type: "string" };
const options = {
  modules: text, redis: text, capacity: text, rate: text, keys: text, tasks: text, seconds: text,
};
const { values: args } = parseArgs({ options });
const load = createRequire(path.join(args.modules, "index.js"));
const Redis = load("ioredis");
const { RateLimiterRedis } = load("rate-limiter-flexible");

const [keys, tasks, seconds] = [args.keys, args.tasks, args.seconds].map(Number);
const names = Array.from({ length: Math.max(keys, 1) }, (_, key) => `key-${key}`);
const storeClient = new Redis(args.redis);
const limiter = new RateLimiterRedis({ storeClient, points: Number(args.rate), duration: 1 });

async function take(name) {
  try {
    await limiter.consume(name);
    return true;
  } catch (denied) {
    if (denied instanceof Error) throw denied;
    return false;
  }
}

async function main() {
  const warm = async (first) => {
    for (let key = first; key < names.length; key += tasks) await take(names[key]);
  };
  await Promise.all(Array.from({ length: tasks }, (_, first) => warm(first)));
  console.log("ready");
  await new Promise((resolve) => process.stdin.once("data", resolve));

  const latencies = [];
  let [allowed, stop] = [0, false];
  const ask = async () => {
    for (;;) {
      const before = performance.now();
      const granted = await take(names[Math.floor(Math.random() * names.length)]);
      if (stop) return;
      latencies.push(performance.now() - before);
      if (granted) allowed += 1;
    }
  };
  const [started, usedBefore] = [performance.now(), process.cpuUsage()];
  const running = Array.from({ length: tasks }, ask);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  stop = true;
  const used = process.cpuUsage(usedBefore);
  const [cpu, elapsed] = [(used.user + used.system) / 1e6, (performance.now() - started) / 1000];
  const seen = { decisions: latencies.length, allowed, seconds: elapsed, cpu };
  await Promise.all(running);
  latencies.sort((a, b) => a - b);
  const at = (part) => (latencies[Math.min(Math.floor(part * latencies.length), latencies.length - 1)] ?? 0) * 1000;
  console.log(JSON.stringify({ ...seen, p50: at(0.5), p99: at(0.99), p999: at(0.999) }));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
