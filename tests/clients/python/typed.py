"""A user's code with the package. mypy checks it; it never runs."""

from datetime import timedelta

import redis
import redis.asyncio
import redislock
import redislock.asyncio
from redislock.opentelemetry import OpenTelemetry


def threads(client: redis.Redis, cluster: redis.RedisCluster) -> int:
    redislock.Locks(cluster).close()
    with redislock.Locks(client) as locks, locks.lock("a", b"b", wait=timedelta(seconds=1), limit=3, sync=(1, 0.1)) as held:
        held.on_lost(lambda lost: print(lost.args))
        slot: int | None = held.slot
        lease: float = held.extend(10)
        if tried := locks.try_acquire("c", lease=lease):
            with tried:
                print(tried.mode)
        return held.fence + (slot or 0)


class Counts(redislock.Observer):
    def refused(self, lock: redislock.Handle, waited: float, outcome: redislock.Outcome, error: BaseException) -> None:
        print(lock.keys, waited, outcome, error)


def observed(client: redis.Redis) -> tuple[redislock.Locks, redislock.Locks]:
    return redislock.Locks(client, observer=Counts()), redislock.Locks(client, observer=OpenTelemetry(str))


async def tasks(client: redis.asyncio.Redis) -> int:
    async with redislock.asyncio.Locks(client) as locks, locks.lock("a", session=True, renew=False) as held:
        await held.extend(timedelta(minutes=1))
        try:
            held.check()
        except redislock.LockLost as lost:
            print(lost)
        return held.fence
