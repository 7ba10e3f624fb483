import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from uuid import uuid4

import redis
from redislock import Deadlock, LockError, LockLost, Locks


class Tasks:
    """Work that takes locks as it goes, for any number of threads."""

    def __init__(self, locks, wait=10):
        self.locks, self.wait = locks, wait

    def run(self, work):
        """Calls work(take). Where take(key) is told of a deadlock, all locks are given back, and work is called again."""
        for failed in count():
            try:
                return self._once(work)
            except Deadlock:
                # So that the others come first; longer each time, or tasks that compete only meet again.
                time.sleep(random.uniform(0, 0.02 * 2 ** min(failed, 5)))

    def _once(self, work):
        owner, taken = str(uuid4()), []  # one owner for all locks of a task, and a new one each time

        def take(key):
            taken.append(self.locks.lock(key, owner=owner, detect=True, wait=self.wait).acquire())
            return taken[-1].fence

        try:
            result = work(take)
        except BaseException:
            for held in taken:
                with suppress(LockError):  # what went wrong tells more
                    held.release()
            raise
        lost = []
        for held in taken:
            try:
                held.release()
            except LockLost:
                lost += held.keys
        if lost:
            raise RuntimeError(f"lost meanwhile: {lost}")
        return result


if __name__ == "__main__":
    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    tasks = Tasks(Locks(redis.Redis.from_url(url)))
    keys, begun = [f"{kind}:{number}" for kind in ("order", "item") for number in range(5)], []

    def cross(pair):
        def work(take):
            begun.append(pair)
            take(pair[0])
            time.sleep(0.001)  # here it reads what else it needs
            return take(pair[1])

        return tasks.run(work)

    pairs = [random.sample(keys, 2) for _ in range(200)]
    with ThreadPoolExecutor(20) as threads:
        fences = list(threads.map(cross, pairs))
    print(len(pairs), "tasks, the last one held its second lock with fence", max(fences))
    print("begun anew:", len(begun) - len(pairs))
