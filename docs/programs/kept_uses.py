"""Uses one lock 100,000 times, and then lets somebody else have it: docs/recipes.md."""

import asyncio
import os
import time

import redis.asyncio as redis
from kept_lock import KeptLock
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff


async def main():
    retry = Retry(ExponentialWithJitterBackoff(base=0.01, cap=1), 10)  # commands survive a lost connection
    client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379"), retry=retry)
    async with KeptLock(client, "invoice:42") as mine, KeptLock(client, "invoice:42") as others:
        for _ in range(100_000):
            async with mine.use() as fence:
                pass  # the work
        print("held with fence", fence, "for 100,000 uses")
        began = time.monotonic()
        async with others.use() as fence:
            print(f"held by the other with fence {fence}, {(time.monotonic() - began) * 1000:.1f} ms after it asked")
    await client.aclose()


asyncio.run(main())
