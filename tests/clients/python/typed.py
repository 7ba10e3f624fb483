"""What a user writes with the package. mypy checks it; nobody runs it."""

from datetime import timedelta

import redis
import redis.asyncio
import redislock
import redislock.asyncio


def threads(client: redis.Redis, cluster: redis.RedisCluster) -> int:
    redislock.Locks(cluster).close()
    with redislock.Locks(client) as locks, locks.lock("a", b"b", wait=timedelta(seconds=1), limit=3, sync=(1, 0.1)) as held:
        held.on_lost(lambda lost: print(lost.args))
        slot: int | None = held.slot
        return held.fence + (slot or 0)


async def tasks(client: redis.asyncio.Redis) -> int:
    async with redislock.asyncio.Locks(client) as locks, locks.lock("a", session=True, renew=False) as held:
        await held.extend(timedelta(minutes=1))
        try:
            held.check()
        except redislock.LockLost as lost:
            print(lost)
        return held.fence
