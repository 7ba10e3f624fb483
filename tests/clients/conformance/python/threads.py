"""The program of the conformance scenarios for threads."""

import json
import sys
import threading
import time

import redis
import redislock
from redis.sentinel import Sentinel

from words import Tells, acquired, connect, options, say, tell


class Task:
    def __init__(self, locks, command):
        self.name, self.over, self.cancelled = command["task"], threading.Event(), False
        try:
            self.lock = locks.lock(*command["keys"], **options(command))
        except Exception as error:
            return tell(self.name, error)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            with self.lock as held:
                held.on_lost(lambda lost: (tell(self.name, lost), self.over.set()))
                acquired(self.name, held)
                self.over.wait()
            say("cancelled" if self.cancelled else "released", task=self.name)
        except redislock.LockLost as lost:
            if not self.over.is_set() or self.cancelled or self.lost_at_release:
                tell(self.name, lost)
        except Exception as error:
            tell(self.name, error)

    lost_at_release = False

    def release(self):
        """Called before the next command is read, so that the release has begun by then."""
        self.lost_at_release = self.lock.lost is None
        self.over.set()
        while self.lock._state == "held":
            time.sleep(0.001)

    def cancel(self):
        self.cancelled = True
        self.lock.cancel()
        self.over.set()

    def extend(self, lease):
        try:
            say("extended", task=self.name, lease=round(1000 * self.lock.extend(lease / 1000)))
        except Exception as error:
            tell(self.name, error)


def main():
    tasks, locks, client = {}, None, None
    for line in sys.stdin:
        command = json.loads(line)
        do = command["do"]
        if do == "open":
            client = connect(command, redis, Sentinel)
            locks = redislock.Locks(client, observer=Tells() if command.get("observe") else None)
            say("opened")
        elif do == "acquire":
            tasks[command["task"]] = Task(locks, command)
        elif do in ("cancel", "release"):
            getattr(tasks[command["task"]], do)()
        elif do == "close":
            locks.close()
            say("closed")
        else:
            threading.Thread(target=tasks[command["task"]].extend, args=[command["lease"]], daemon=True).start()


main()
