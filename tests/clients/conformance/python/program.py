"""The program of the conformance scenarios. Its argument: `threads`, `tasks` of asyncio, or those with `core-` before them, which have no
server: see core.py."""

import asyncio
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import redislock

kind = sys.argv[1].removeprefix("core-")
core = import_module("core") if kind != sys.argv[1] else None
redis = import_module("redis" if kind == "threads" else "redis.asyncio")
package = core or import_module("redislock" if kind == "threads" else "redislock.asyncio")
workers = ThreadPoolExecutor(2000)
writing = threading.Lock()


def say(event, **fields):
    with writing:
        print(json.dumps({"event": event, "at": core and core.now, **fields}), flush=True)


async def call(work, *given):
    """Calls a method of the package: in a thread, or in this task."""
    return await (asyncio.get_running_loop().run_in_executor(workers, work, *given) if kind == "threads" and not core else work(*given))


def connect(command):
    more = {"max_connections": command["pool"]} if "pool" in command else {}
    host, port = command["urls"][0].removeprefix("redis://").split(":")
    if command["kind"] == "cluster":
        return redis.RedisCluster.from_url(command["urls"][0], **more)
    if command["kind"] == "sentinel":
        return redis.sentinel.Sentinel([(host, int(port))]).master_for(command["service"], **more)
    pool = redis.BlockingConnectionPool if more else redis.ConnectionPool
    return redis.Redis(connection_pool=pool(host=host, port=int(port), **more))


def options(command):
    """Converts the options of a command: milliseconds become seconds."""
    found = {name: command[name] for name in ("shared", "limit", "slot", "label", "detect", "session", "owner", "renew") if name in command}
    found |= {name: command[name] / 1000 for name in ("wait", "lease", "max_hold") if name in command}
    if "sync" in command:
        found["sync"] = (command["sync"][0], command["sync"][1] / 1000)
    return found


class Tells(redislock.Observer):
    def _tell(self, event, lock, seconds=0, *outcome, reason=None):
        say("observed", what=" ".join([event, ",".join(lock.keys), lock.mode, *outcome]), ms=seconds * 1000, reason=reason)

    def waiting(self, lock):
        self._tell("waiting", lock)

    def acquired(self, lock, waited):
        self._tell("acquired", lock, waited)

    def refused(self, lock, waited, outcome, error):
        self._tell("refused", lock, waited, outcome)

    def released(self, lock, held):
        self._tell("released", lock, held)

    def lost(self, lock, held, error):
        self._tell("lost", lock, held, reason=error.reason)


EVENTS = {
    redislock.NotAcquired: "not_acquired", redislock.LockLost: "lost", redislock.Closed: "closed", redislock.Cancelled: "cancelled",
    asyncio.CancelledError: "cancelled", redislock.Deadlock: "deadlock", redislock.NotConfirmed: "not_confirmed",
    redislock.NoModule: "no_module", redislock.TooOld: "too_old", ValueError: "refused",
}


def tell(what, task, error):
    event = next((event for kind, event in EVENTS.items() if isinstance(error, kind)), "error")
    more = {"cycle": error.cycle} if event == "deadlock" else {}
    say(event, what=what, task=task, message=f"{type(error).__name__}: {error}", reason=str(error), **more)


class Task:
    held = False

    def __init__(self, name, command):
        self.name, self.loop = name, asyncio.get_running_loop()
        try:
            self.lock = locks.lock(*command["keys"], **options(command))
            self.wait = asyncio.ensure_future(self.acquire())
        except Exception as error:
            tell("refused", name, error)

    async def acquire(self):
        try:
            await call(self.lock.acquire)
        except (Exception, asyncio.CancelledError) as error:
            return tell("refused", self.name, error)
        self.held = True
        say("acquired", task=self.name, owner=self.lock.owner.decode(), fences=self.lock.fences, slot=self.lock.slot)
        self.lock.on_lost(self.lost)

    def lost(self, error):
        tell("lost", self.name, error)
        asyncio.run_coroutine_threadsafe(self.do(self.lock.release), self.loop)

    async def do(self, work, *given, what=None, event=None):
        try:
            result = await call(work, *given)
            if event:
                say(event, task=self.name, **({} if result is None else {"lease": round(1000 * result)}))
        except Exception as error:
            if event:
                tell(what, self.name, error)

    async def release(self, event="released"):
        """Returns before the next command is read, but only when the release has begun."""
        self.release_ = asyncio.ensure_future(self.do(self.lock.release, what="not released", event=event))
        while self.lock._state == "held":
            await asyncio.sleep(0.001 if kind == "threads" and not core else 0)

    async def cancel(self):
        if self.held:
            await self.release("cancelled")
        elif kind == "threads":
            self.lock.cancel()
        else:
            self.wait.cancel()

    async def extend(self, lease):
        self.extend_ = asyncio.ensure_future(self.do(self.lock.extend, lease and lease / 1000, what="not extended", event="extended"))

    async def check(self):
        self.lock.lost  # noqa: B018


locks, tasks = None, {}


async def obey(do, task=None, at=None, **command):
    global locks
    if do == "open":
        tasks.clear()
        locks = package.Locks(connect(command) if not core else None, observer=Tells() if command.get("observe") else None)
        say("opened")
    elif do == "close":
        await call(locks.close)
        say("closed")
    elif do == "acquire":
        tasks[task] = Task(task, command)
    elif task is None:
        getattr(locks, do)(**command)
    else:
        await getattr(tasks[task], do)(**command)


async def main():
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        await obey(**json.loads(line))
    if locks:
        await call(locks.close)


if __name__ == "__main__":
    if core:
        core.run(obey, tasks, say)
    asyncio.run(main())
