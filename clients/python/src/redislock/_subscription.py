"""Subscriptions: one at the server, or one for each shard of a cluster in which something is waited for or held."""

from __future__ import annotations

import logging
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis import exceptions

from ._request import Passing

if TYPE_CHECKING:
    from ._core import Core

log = logging.getLogger("redislock")

SILENCE = 4.0  # s without a message until a ping, and again until it is made anew; an unused shard's subscription is closed
TRY_AGAIN = 0.1  # s: the pause after a lost connection


class Subscription:
    """At a single server, it is made anew whenever it is lost. In a shard, it ends: the shard may have a new primary, or other slots."""

    def __init__(self, core: Core, name: str) -> None:
        self.core, self.name = core, name  # the name of the shard's primary
        self.channel = core.channel
        self.link: Any = None  # the PubSub object of redis-py
        self.reader = core.io.reader(self)
        self.begun = self.opened = self.alive = self.over = self.pinged = self.moved = False
        self.error: Exception | None = None  # why subscribing failed
        self.used = self.heard_at = monotonic()

    async def _open(self) -> None:
        if self.core.io.slots is not None:
            self.channel = f"{self.core.channel}:{{{self.core.io.slots.tag(self.name)}}}"
        for _ in range(await self.core.io.subscribe(self)):
            if await self.core.io.receive(self, SILENCE) is None:
                raise exceptions.TimeoutError("the subscription was not confirmed")
        self.heard_at, self.pinged = monotonic(), False
        self.opened = self.alive = True
        self.core.subscribed(self)

    async def _close(self) -> None:
        with suppress(Exception):
            await self.core.io.unsubscribe(self)

    async def listen(self) -> None:
        core, io = self.core, self.core.io
        try:
            await self._open()
        except Exception as error:
            self.moved = isinstance(error, exceptions.MovedError)
            if self.moved:
                error = Passing(str(error))
            await self._end(Passing.of(error) if isinstance(error, exceptions.ResponseError) else error)
            return
        idle, pause = io.signal(), 0.0
        while not core.closed:
            await io.turn(self)
            try:
                if not self.alive:
                    if self.name:
                        break
                    await self._open()
                    pause = 0.0
                while not core.closed and not await self.hear(SILENCE):
                    pass
            except Exception as error:
                self.broken(error)
                if not self.name:
                    await self._close()
                    await idle.sleep(pause)
                    pause = min(1.0, pause + TRY_AGAIN)
            finally:
                io.turn_over(self)
        await self._end(None)

    async def _end(self, error: Exception | None) -> None:
        await self._close()
        if self.core.io.slots is not None and not (self.over or self.core.closed):
            # After a move, only this node may know the new slots; after a failure, it may not answer.
            await (self.core.io.slots.read(first=self.name) if self.moved else self.core.io.slots.read(last=self.name))
        self.error = error
        self.core.unsubscribed(self)

    def broken(self, error: Exception) -> None:
        self.alive = False
        log.log(logging.DEBUG if isinstance(error, self.core.PASSING) else logging.ERROR, "subscribing again: %r", error)

    async def hear(self, seconds: float) -> bool:
        """Handles one message, if one comes within this time. Returns whether it has woken a wait."""
        message = await self.core.io.receive(self, seconds)
        if message is None:
            quiet = monotonic() - self.heard_at
            if quiet >= 2 * SILENCE:
                raise exceptions.ConnectionError("the subscription is dead")
            if quiet >= SILENCE and not self.pinged:
                if self.name and self.core.unused(self):
                    self.over = True
                    raise exceptions.ConnectionError("nobody needs the subscription")
                self.pinged = True
                await self.core.io.ping(self)
            return False
        self.heard_at, self.pinged = monotonic(), False
        if message["type"] == "sunsubscribe":
            self.moved = True
            raise exceptions.ConnectionError("the slot of the channel has moved")
        if message["type"] not in ("message", "smessage"):
            return False
        data = message["data"]
        return self.core.heard(data if isinstance(data, bytes) else data.encode(errors="surrogateescape"))
