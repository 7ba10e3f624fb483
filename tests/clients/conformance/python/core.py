"""The core of the package without a server: its clock and its connections do as ../driver/traces.py says."""

import asyncio
import json
import math
import os
import sys

import redis.asyncio
import redislock.asyncio
from redis import exceptions
from redis._parsers.base import BaseParser
from redislock import _core, _subscription
from redislock._request import Passing

BEGIN = 1000.0  # s
now = 0  # ms
late = 0.0  # s: added to the time, so that rounding makes no timer late
shields = sys.argv[1] == "core-tasks"
say = None


def monotonic():
    return BEGIN + now / 1000 + late


for module in (_core, _subscription, redislock.asyncio):
    module.monotonic = monotonic


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


loops = []  # of all traces, so that no task is thrown away while it is pending


class IO(redislock.asyncio._Tasks):
    def __init__(self):
        super().__init__(redis.asyncio.Redis(), None)
        self.loop, self.sent, self.ready, self.subscription = loops[-1], [], False, None

    async def send(self, words, session):
        self.sent.append(self.loop.create_future())
        text = " ".join(word.decode() if isinstance(word, bytes) else str(word) for word in words)
        say("sent", command=len(self.sent), words=text, session=session)
        reply = await self.sent[-1]
        if isinstance(reply, dict) and "error" in reply:
            raise Passing.of(BaseParser.parse_error(reply["error"]))
        if isinstance(reply, dict):
            raise (exceptions.TimeoutError if reply["no answer"] == "silence" else exceptions.ConnectionError)("no answer")
        return in_bytes(reply)

    async def finish(self, work):
        return await (super().finish(work) if shields else work)

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


class Lock(redislock.asyncio.Lock):
    def cancel(self):
        self._cancelled = "no longer wanted"
        self._woken.set()


class Locks(redislock.asyncio.Locks):
    """With the events that a trace tells."""

    def __init__(self, _, observer):
        self._io, loops[-1].locks = IO(), self

    def lock(self, *keys, **options):
        lock = super().lock(*keys, **options)
        return Lock(lock._core, lock._request)

    async def close(self):
        await self._io.close()

    def time(self):
        pass

    def subscribed(self):
        self._io.opened()

    def heard(self, message):
        self._io.core.heard(message.encode())

    def answer(self, command, reply):
        if not self._io.sent[command - 1].done():
            self._io.sent[command - 1].set_result(reply)


def run(obey, tasks, tell):
    global now, late, say
    say, believed = tell, {}
    for line in sys.stdin:
        command = json.loads(line)
        late = late + 1e-6 if command["at"] == now else 0.0
        now, do, name = command["at"], command["do"], command.get("task")
        if do == "open":
            loops.append(loop := Loop())
            believed = {}
        loop.create_task(obey(**command))
        loop.settle()
        if do == "acquire":
            say("owner", task=name, owner=tasks[name].lock.owner.decode())
        for name, task in tasks.items():
            if task.lock._state != "held":
                believed.pop(name, None)
                continue
            until = None if task.lock._until == math.inf else round((task.lock._until - BEGIN) * 1000)
            if believed.get(name, 0) != until:
                believed[name] = until
                say("believes", task=name, until=until)
        at = loop.next()
        say("next", until=None if at == math.inf else math.ceil((at - BEGIN) * 1000 - 0.001))
    os._exit(0)  # tasks that are still running would log errors
