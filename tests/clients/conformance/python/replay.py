"""Replays traces with the core of the package, without a server or a thread. `../driver/traces.py` sets the clock, and describes the lines."""

import asyncio
import json
import math
import os
import sys

from redis import exceptions
from redis._parsers.base import BaseParser

import redislock.asyncio
from redislock import _core, _subscription
from redislock._request import Cancelled, Closed, Deadlock, LockLost, NoModule, NotAcquired, NotConfirmed, Passing, Request, TooOld

from words import options

OUTCOMES = [(NotAcquired, "not acquired"), (LockLost, "lost"), (Cancelled, "cancelled"), (asyncio.CancelledError, "cancelled"),
            (Closed, "closed"), (Deadlock, "deadlock"), (NotConfirmed, "not confirmed"), (NoModule, "no module"), (TooOld, "too old")]
BEGIN = 1000.0  # s
now = 0  # ms
late = 0.0  # s: added to the time, so that rounding makes no timer late


def monotonic():
    return BEGIN + now / 1000 + late


def tell(*said):
    print(json.dumps([now, *said]))


def outcome(error):
    return next((name for kind, name in OUTCOMES if isinstance(error, kind)), "error")


def in_bytes(reply):
    return [in_bytes(each) for each in reply] if isinstance(reply, list) else reply.encode() if isinstance(reply, str) else reply


class Loop(asyncio.SelectorEventLoop):
    def time(self):
        return monotonic()

    def next(self):
        return min((timer.when() for timer in self._scheduled if not timer.cancelled()), default=math.inf)

    def settle(self):
        """Runs tasks and timers until nothing more can be done now."""
        for _ in range(1000):
            self.call_soon(self.stop)
            self.run_forever()
            if not self._ready and self.next() > self.time():
                return
        sys.exit("it never comes to rest")


class IO(redislock.asyncio._Tasks):
    def __init__(self, loop, shields):
        super().__init__(redislock.asyncio.redis.Redis(), None)
        self.loop, self.shields = loop, shields
        self.sent, self.ready, self.subscription = [], False, None

    async def send(self, words, session):
        self.sent.append(asyncio.get_running_loop().create_future())
        text = " ".join(word.decode() if isinstance(word, bytes) else str(word) for word in words)
        tell("send", len(self.sent), text, *(["session"] if session else []))
        reply = await self.sent[-1]
        if isinstance(reply, dict) and "error" in reply:
            raise Passing.of(BaseParser.parse_error(reply["error"]))
        if isinstance(reply, dict):
            raise (exceptions.TimeoutError if reply["no answer"] == "silence" else exceptions.ConnectionError)("no answer")
        return in_bytes(reply)

    async def finish(self, work):
        return await (super().finish(work) if self.shields else work)

    async def start(self):
        pass

    def listen(self, subscription):
        subscription.begun, self.subscription = True, subscription
        if self.ready:
            self.loop.call_soon(self.opened)

    def opened(self):
        self.ready = True
        if self.subscription is not None:
            self.subscription.opened = self.subscription.alive = True
            self.core.subscribed(self.subscription)


class Bench:
    def __init__(self, shields):
        self.loop = Loop()
        asyncio.set_event_loop(self.loop)
        self.io = IO(self.loop, shields)
        self.locks, self.waits, self.believed = [], [], {}

    def acquire(self, wanted):
        lock = redislock.asyncio.Lock(self.io.core, Request.of(tuple(wanted["keys"]), options(wanted)))
        self.locks.append(lock)
        number = len(self.locks)
        tell("owner", number, lock.owner.decode())
        wait = self.loop.create_task(lock.acquire())
        self.waits.append(wait)
        wait.add_done_callback(lambda wait: self.acquired(number, lock, wait))

    def acquired(self, number, lock, wait):
        error = asyncio.CancelledError() if wait.cancelled() else wait.exception()
        if error is not None:
            tell("refused", number, outcome(error))
            return
        tell("acquired", number, lock.fences, lock.slot)
        lock.on_lost(lambda error: self.lost(number, lock, error))

    def lost(self, number, lock, error):
        tell("lost", number, "closed" if self.io.core.closed else outcome(error))
        self.loop.create_task(self.end(lock))

    @staticmethod
    async def end(lock):
        try:
            await lock.release()
        except Exception:
            pass

    async def asked(self, work, done, not_done, number):
        try:
            result = await work
            tell(done, number, *([] if result is None else [round(result * 1000)]))
        except Exception as error:
            tell(not_done, number, outcome(error))

    def call(self, what, *given):
        core, number = self.io.core, given[0] if given else None
        lock = self.locks[number - 1] if what in ("extend", "check", "release", "cancel") else None
        if what == "subscribed":
            self.io.opened()
        elif what == "heard":
            core.heard(given[0].encode())
        elif what == "answer":
            if not self.io.sent[number - 1].done():
                self.io.sent[number - 1].set_result(given[1])
        elif what == "acquire":
            self.acquire(given[0])
        elif what == "extend":
            lease = None if given[1] is None else given[1] / 1000
            self.loop.create_task(self.asked(lock.extend(lease), "extended", "not extended", number))
        elif what == "check":
            lock.lost  # noqa: B018
        elif what == "release":
            self.loop.create_task(self.asked(lock.release(), "released", "not released", number))
        elif what == "cancel" and self.io.shields:
            self.waits[number - 1].cancel()
        elif what == "cancel":
            lock._cancelled = "no longer wanted"
            lock._woken.set()
        elif what == "close":
            self.loop.create_task(self.io.close())

    def step(self, line):
        global now, late
        late = late + 1e-6 if line[0] == now else 0.0
        now, what, *given = line
        self.loop.call_soon(self.call, what, *given)
        self.loop.settle()
        for number, lock in enumerate(self.locks, 1):
            if lock._state != "held":
                self.believed.pop(number, None)
                continue
            until = None if lock._until == math.inf else round((lock._until - BEGIN) * 1000)
            if self.believed.get(number, 0) != until:
                self.believed[number] = until
                tell("believes", number, until)
        at = self.loop.next()
        print(json.dumps(["next", None if at == math.inf else math.ceil((at - BEGIN) * 1000 - 0.001)]), flush=True)


def main(variant):
    for module in (_core, _subscription, redislock.asyncio):
        module.monotonic = monotonic
    benches = []
    for line in sys.stdin:
        said = json.loads(line)
        if said == ["new"]:
            benches.append(Bench(variant == "tasks"))
        else:
            benches[-1].step(said)
    os._exit(0)  # tasks that are still running would log errors


main(sys.argv[1])
