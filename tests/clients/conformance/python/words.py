"""Code for both programs: converts options and errors between JSON and the package."""

import json
import threading

import redislock

writing = threading.Lock()


def say(event, **fields):
    with writing:
        print(json.dumps({"event": event, **fields}), flush=True)


def connect(command, redis, sentinel):
    """For threads or for tasks: the caller passes the module to use."""
    more = {"max_connections": command["pool"]} if "pool" in command else {}
    host, port = command["urls"][0].removeprefix("redis://").split(":")
    if command["kind"] == "cluster":
        return redis.RedisCluster.from_url(command["urls"][0], **more)
    if command["kind"] == "sentinel":
        return sentinel([(host, int(port))]).master_for(command["service"], **more)
    pool = redis.BlockingConnectionPool if more else redis.ConnectionPool
    return redis.Redis(connection_pool=pool(host=host, port=int(port), **more))


def options(command):
    """Converts the options of a command: milliseconds become seconds."""
    found = {name: command[name] for name in ("shared", "limit", "slot", "label", "detect", "session", "owner", "renew") if name in command}
    found |= {name: command[name] / 1000 for name in ("wait", "lease", "max_hold") if name in command}
    if "sync" in command:
        found["sync"] = (command["sync"][0], command["sync"][1] / 1000)
    return found


def acquired(task, held):
    say("acquired", task=task, owner=held.owner.decode(), fences=held.fences, slot=held.slot)


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
    redislock.NotAcquired: "not_acquired", redislock.LockLost: "lost", redislock.Cancelled: "cancelled",
    redislock.NotConfirmed: "not_confirmed", redislock.NoModule: "no_module", redislock.TooOld: "too_old",
    ValueError: "refused",
}


def tell(task, error):
    if isinstance(error, redislock.Deadlock):
        return say("deadlock", task=task, cycle=error.cycle)
    event = next((event for kind, event in EVENTS.items() if isinstance(error, kind)), "error")
    say(event, task=task, message=f"{type(error).__name__}: {error}", reason=str(error))
