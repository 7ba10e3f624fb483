import os
from contextlib import contextmanager

import redis
from redislock import Locks


@contextmanager
def both(client, locks, name, lease=30, wait=10):
    """For the time in which some processes know the old lock only."""
    old = client.lock(f"lock:{name}", timeout=lease, blocking_timeout=wait)
    with old, locks.lock(f"redislock:{name}", lease=lease, renew=False, wait=wait) as held:
        yield held.fence


if __name__ == "__main__":
    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    client = redis.Redis.from_url(url)
    with both(client, Locks(client), "invoice:42") as fence:
        print("held with fence", fence)
