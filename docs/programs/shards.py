"""A worker with a number that no other worker has: docs/recipes.md."""

import os
import sys
from uuid import uuid4

import redis
from redislock import Locks

SHARDS = 4


def shard(locks, client, wanted=None):
    """A lock whose slot is a number that nobody else has: the wanted one if it is free, or else the lowest."""
    owner = str(uuid4())
    if wanted:  # null if it is not free. If it is, the package enters that grant
        client.execute_command("LOCK.ACQUIRE", "shards", "OWNER", owner, "LIMIT", SHARDS, "SLOT", wanted)
    return locks.lock("shards", owner=owner, limit=SHARDS, session=True, label=f"process {os.getpid()}")


if __name__ == "__main__":
    client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379"))
    with Locks(client) as locks, shard(locks, client, *map(int, sys.argv[1:])) as held:
        print(f"shard {held.slot}, held with fence {held.fence}")
