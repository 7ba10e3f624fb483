import os
from contextlib import contextmanager
from threading import Event, Thread

import redis
from redislock import Locks


@contextmanager
def both(client, locks, name, lease=30, wait=10):
    """For the time in which some processes know the old lock only. Both locks are renewed. The end of the block raises what was lost."""
    old = client.lock(f"lock:{name}", timeout=lease, blocking_timeout=wait, thread_local=False)
    done = Event()

    def renew():
        while not done.wait(lease / 3):
            try:
                old.reacquire()  # its whole lease again
            except redis.exceptions.LockError:
                return  # it is lost
            except redis.RedisError:
                pass  # the next try may reach the server

    with old, locks.lock(f"redislock:{name}", lease=lease, wait=wait) as held:
        thread = Thread(target=renew)
        thread.start()
        try:
            yield held
        finally:
            done.set()
            thread.join()


if __name__ == "__main__":
    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    client = redis.Redis.from_url(url)
    with both(client, Locks(client), "invoice:42") as held:
        print("held with fence", held.fence)
