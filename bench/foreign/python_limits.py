"""A worker in Python: the package limits, with its default strategy, a fixed window. Speaks as src/worker.rs describes.

A connection of its own answers one task at a time, so there are as many as tasks.
"""

import argparse
import asyncio
import json
import random
import sys
import time

from limits import RateLimitItemPerSecond
from limits.aio.storage import RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter


async def main():
    parser = argparse.ArgumentParser()
    for name in ("redis", "capacity", "rate", "keys", "tasks", "seconds"):
        parser.add_argument(f"--{name}")
    args = parser.parse_args()
    keys, tasks, seconds = int(args.keys), int(args.tasks), float(args.seconds)
    storage = RedisStorage(f"async+{args.redis}", max_connections=tasks, implementation="redispy")
    limiter = FixedWindowRateLimiter(storage)
    item = RateLimitItemPerSecond(int(args.rate))
    names = [f"key-{key}" for key in range(max(keys, 1))]

    async def warm(first):
        for key in range(first, len(names), tasks):
            await limiter.hit(item, names[key])

    await asyncio.gather(*(warm(first) for first in range(tasks)))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

    latencies, allowed, stop = [], 0, False

    async def ask():
        nonlocal allowed
        while True:
            before = time.perf_counter()
            granted = await limiter.hit(item, random.choice(names))
            if stop:
                return
            latencies.append(time.perf_counter() - before)
            allowed += granted

    started, used = time.perf_counter(), time.process_time()
    running = [asyncio.create_task(ask()) for _ in range(tasks)]
    await asyncio.sleep(seconds)
    stop, elapsed, cpu = True, time.perf_counter() - started, time.process_time() - used
    decisions, granted = len(latencies), allowed
    await asyncio.gather(*running)
    latencies.sort()
    at = lambda part: latencies[min(int(part * decisions), decisions - 1)] * 1e6 if decisions else 0.0
    seen = {"decisions": decisions, "allowed": granted, "seconds": elapsed, "cpu": cpu}
    print(json.dumps(seen | {"p50": at(0.5), "p99": at(0.99), "p999": at(0.999)}), flush=True)


asyncio.run(main())
