import os

import redis
from redislock import LockLost, Locks


def write(client, key, fence, add_commands):
    """Runs the commands that `add_commands` adds, all or none, if the grant with that fence still holds the lock. Else LockLost."""
    with client.pipeline(transaction=True) as pipe:  # has a connection of the pool to itself
        while True:
            try:
                pipe.watch(key)
                if fence_of(pipe.execute_command("LOCK.INFO", key)) != fence:
                    raise LockLost(key)
                pipe.multi()
                add_commands(pipe)
                return pipe.execute()
            except redis.WatchError:
                pass  # the lock has been extended, or has ended: look again


def fence_of(info):
    """RESP3 sends a map; RESP2 sends names and values in a row. None: the lock is free."""
    if isinstance(info, list):
        info = dict(zip(info[::2], info[1::2]))
    return info and info.get("fence", info.get(b"fence"))


if __name__ == "__main__":
    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    client = redis.Redis.from_url(url)
    key = "invoice:{42}:lock"
    with Locks(client).lock(key) as held:
        write(client, key, held.fence, lambda pipe: pipe.hset("invoice:{42}", "state", "paid"))
        print("paid, and held with fence", held.fence)
