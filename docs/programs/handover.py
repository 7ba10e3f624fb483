import json
import os

import redis
from redislock import LockLost, Locks


def give(locks, client, key, work):
    """Does the first part, and leaves the lock held. Returns what to send to whoever does the second one."""
    with locks.lock(key, lease=60) as held:
        work()
        client.execute_command("LOCK.ACQUIRE", key, "OWNER", held.owner)  # one hold more than the block releases
    return json.dumps([key, held.owner.decode(), held.fence])


def take(locks, job, work):
    """Does the second part, under the same grant."""
    key, owner, fence = json.loads(job)
    with locks.lock(key, owner=owner, wait=0) as held:
        if held.fence != fence:
            raise LockLost(f"{key} was free in between")
        work(fence)


if __name__ == "__main__":
    client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379"))
    with Locks(client) as locks:
        job = give(locks, client, "invoice:42", lambda: print("the first part"))
        take(locks, job, lambda fence: print("the second part, held with fence", fence))
