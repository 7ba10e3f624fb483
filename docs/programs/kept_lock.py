import asyncio
import time
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import redis.asyncio as redis


class KeptLock:
    """Takes a lock at its first use, and keeps it until somebody else wants it: uses in between need no round trip."""

    def __init__(self, client, key, lease_ms=30_000):
        self.client, self.key, self.lease_ms = client, key, lease_ms
        self.owner, self.channel = str(uuid4()), f"locks:{uuid4()}"
        self.fence, self.until, self.wanted = None, 0, False
        self.turn, self.told = asyncio.Lock(), asyncio.Event()

    async def __aenter__(self):
        self.pubsub = self.client.pubsub()
        await self.pubsub.subscribe(self.channel)
        await self.pubsub.get_message(timeout=None)  # the confirmation: from here on messages come
        self.tasks = [asyncio.create_task(self.listen()), asyncio.create_task(self.keep())]
        return self

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await self.give_up()
        await self.pubsub.aclose()

    async def listen(self):
        while True:
            try:
                message = await self.pubsub.get_message(timeout=None)
            except redis.RedisError:
                await asyncio.sleep(1)  # redis-py has tried to connect for a while; so do we
                continue
            # One of another type: subscribed anew after a lost connection. What was missed, `keep` and `acquire` find out.
            word, *words = message["data"].split(b" ") if message["type"] == "message" else [None]
            if word == b"wanted":
                self.wanted = True
                self.giving_up = asyncio.create_task(self.give_up_if_wanted())
            elif word == b"lost" and int(words[0]) == self.fence:
                self.fence = None
            self.told.set()

    async def keep(self):
        """Asking again extends the lease. If somebody waits, it also makes the server say so again, in case that message was lost."""
        while True:
            await asyncio.sleep(self.lease_ms / 3000)
            if self.fence:
                with suppress(redis.RedisError):
                    await self.ask()

    async def give_up_if_wanted(self):
        async with self.turn:  # when the block that runs now is done
            if self.wanted:
                await self.give_up()

    async def give_up(self):
        fence, self.fence, self.wanted = self.fence, None, False
        if fence:
            with suppress(redis.ResponseError):  # NOTHELD: it was lost meanwhile
                await self.client.execute_command("LOCK.RELEASE", self.key, self.owner, "FENCE", fence)

    async def ask(self, *wait):
        began = time.monotonic()
        reply = await self.client.execute_command(
            "LOCK.ACQUIRE", self.key, "OWNER", self.owner, "PX", self.lease_ms, *wait, "NOTIFY", self.channel, "WANTED",
            "ONCE")
        granted = reply[1] if isinstance(reply, list) else None
        if not wait and granted != self.fence:  # lost, and perhaps granted anew: no block knows of that
            self.fence, granted = granted, None
            await self.give_up()
        self.fence, self.until = granted, began + self.lease_ms / 1000

    async def acquire(self):
        while True:
            self.told.clear()
            await self.ask("BLOCK", 0)
            if self.fence:
                return
            with suppress(asyncio.TimeoutError):  # QUEUED: a message tells when to ask again; one that is lost costs 4 s
                await asyncio.wait_for(self.told.wait(), 4)

    @asynccontextmanager
    async def use(self):
        async with self.turn:
            if self.fence is None or time.monotonic() > self.until:
                await self.acquire()
            try:
                yield self.fence
            finally:
                if self.wanted:
                    await self.give_up()
