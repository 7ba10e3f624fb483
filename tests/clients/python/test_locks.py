"""The asyncio program for a shared connection: many tasks, two connections, redis-py's defaults."""

import asyncio
import os
from contextlib import suppress

import pytest
import redis.asyncio as redis
from locks import Locks
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError, ResponseError
from session_async import session

from support import info, pairs, until


@pytest.fixture
def other(server):
    with server.connect() as other:
        yield other


@pytest.fixture
def run(server):
    """Runs an asynchronous function with locks that are opened as the documentation does it."""

    def run(body, client=None):
        async def opened():
            async with client or redis.Redis(host="127.0.0.1", port=server.port) as shared, Locks(shared) as locks:
                await body(locks)

        asyncio.run(opened())

    return run


async def all_at_once(locks, count, meanwhile=lambda done: None):
    """So many tasks at once; what they did, in order. `meanwhile` is called with how many are done."""
    inside, done = 0, []

    async def job(number):
        nonlocal inside
        async with locks.lock("door", wait_ms=60_000):
            inside += 1
            assert inside == 1, "two are inside"
            await asyncio.sleep(0.001)  # the others' chance
            inside -= 1
            done.append(number)
            meanwhile(len(done))

    await asyncio.gather(*map(job, range(count)))
    return done


def test_100_tasks_are_served_one_by_one_as_they_asked_over_two_connections(run, other):
    connections = []

    async def body(locks):
        order = await all_at_once(locks, 100, lambda done: done == 50 and connections.extend(other.client_list()))
        assert order == list(range(100))
        assert len(connections) == 3  # one is `other`

    run(body)


def test_the_lock_is_held_for_the_block_and_free_after_it(run, other):
    async def body(locks):
        async with locks.lock("door", lease_ms=10_000) as fence:
            now = info(other, "door")
            assert (now["fence"], now["holds"], now["waiters"]) == (fence, 1, 0)
            assert 0 < now["lease-ms"] <= 10_000
        assert info(other, "door") is None

    run(body)


def test_500_buyers_of_5_articles_nothing_is_sold_twice(server, run, other):
    stock = [f"stock:{sku}" for sku in range(5)]
    other.mset(dict.fromkeys(stock, 20))
    sold = []

    async def body(locks):
        client = redis.Redis(host="127.0.0.1", port=server.port)

        async def buy(buyer):
            article = stock[buyer % 5]
            async with locks.lock(f"lock:{article}", wait_ms=60_000):
                left = int(await client.get(article))
                await asyncio.sleep(0.001)  # the others' chance
                if left > 0:
                    await client.set(article, left - 1)
                    sold.append(buyer)

        async with client:
            await asyncio.gather(*map(buy, range(500)))

    run(body)
    assert len(sold) == 100
    assert other.mget(stock) == ["0"] * 5


def test_all_are_served_though_the_subscription_is_cut(run, other):
    def cut(done):
        if done == 30:
            assert other.client_kill_filter(_type="pubsub") == 1

    async def body(locks):
        assert sorted(await all_at_once(locks, 100, cut)) == list(range(100))

    run(body)


def test_all_are_served_though_the_connection_of_their_commands_is_cut(run, other, server):
    def cut(done):
        if done in (30, 60):
            assert other.client_kill_filter(_type="normal") == 1

    async def body(locks):
        assert sorted(await all_at_once(locks, 100, cut)) == list(range(100))
        assert other.keys() == []

    retry = Retry(ExponentialWithJitterBackoff(base=0.01, cap=1), 10)
    run(body, redis.Redis.from_url(server.url, retry=retry))  # as the documentation does it


def test_a_lost_message_costs_seconds_not_the_lock(run, other):
    async def body(locks):
        async def enter():
            async with locks.lock("door") as fence:
                return fence

        other.execute_command("LOCK.ACQUIRE", "door", "OWNER", "other")
        waiting = asyncio.create_task(enter())
        await until(lambda: info(other, "door")["waiters"] == 1, "it waits")
        # Its place is taken over by another channel, as if the message were lost.
        place = pairs(pairs(other.execute_command("LOCK.INFO", "door", "FULL"))["queue"][0])
        with other.pubsub() as listener:
            listener.subscribe("elsewhere")
            assert listener.get_message(timeout=20)["type"] == "subscribe"
            ask = ["LOCK.ACQUIRE", "door", "OWNER", place["owner"], "BLOCK", 60_000, "NOTIFY", "elsewhere", "ONCE"]
            assert other.execute_command(*ask) == "QUEUED"
            other.execute_command("LOCK.RELEASE", "door", "other")
            assert await waiting > 0

    run(body)


def test_a_task_that_is_cancelled_leaves_the_queue(run, other):
    async def body(locks):
        async def enter():
            async with locks.lock("door", wait_ms=60_000):
                pytest.fail("two have it")

        async with locks.lock("door"):
            cancelled = asyncio.create_task(enter())
            await until(lambda: info(other, "door")["waiters"] == 1, "it waits")
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            assert info(other, "door")["waiters"] == 0

    run(body)


def test_a_task_leaves_nothing_behind_wherever_it_is_cancelled(run, other):
    async def body(locks):
        async def enter():
            async with locks.lock("door"):
                await asyncio.sleep(0)

        await enter()
        before = other.info("stats")["total_connections_received"]
        for steps in range(60):
            task = asyncio.create_task(enter())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await until(lambda: info(other, "door") is None, f"it is released, after {steps} steps")
        # The connection that holds all places is still the same.
        assert other.info("stats")["total_connections_received"] == before

    run(body)


def test_a_task_waits_no_longer_than_asked_and_leaves_the_queue(run, other):
    async def body(locks):
        async with locks.lock("door"):
            with pytest.raises(TimeoutError, match="someone else holds door"):
                async with locks.lock("door", wait_ms=20):
                    pytest.fail("two have it")
            assert info(other, "door")["waiters"] == 0

    run(body)


def test_a_lost_lock_does_not_go_unnoticed_and_hides_nothing(run, other):
    async def body(locks):
        with pytest.raises(ResponseError, match="^NOTHELD "):
            async with locks.lock("door"):
                other.execute_command("LOCK.BREAK", "door")
        with pytest.raises(ZeroDivisionError):
            async with locks.lock("door"):
                other.execute_command("LOCK.BREAK", "door")
                1 / 0
        other.set("door", "no lock")
        with pytest.raises(ResponseError, match="^WRONGTYPE "):
            async with locks.lock("door"):
                pytest.fail("no lock")

    run(body)


def test_a_task_that_is_sent_away_is_told_why(run, other):
    async def body(locks):
        async def enter():
            async with locks.lock("door", wait_ms=60_000):
                pytest.fail("no lock")

        other.execute_command("LOCK.ACQUIRE", "door", "OWNER", "other")
        waiting = asyncio.create_task(enter())
        await until(lambda: info(other, "door")["waiters"] == 1, "it waits")
        other.set("door", "no lock")
        with pytest.raises(ResponseError, match="^WRONGTYPE "):
            await waiting

    run(body)


def test_in_a_cluster_500_tasks_are_served_one_by_one_as_they_asked(run):
    async def body(locks):
        assert await all_at_once(locks, 500) == list(range(500))

    run(body, redis.RedisCluster.from_url(os.environ["CLUSTER_URL"]))


def test_a_session_ends_with_its_connection_and_ping_tells(server, other):
    async def body():
        async with session(f"redis://127.0.0.1:{server.port}", "door") as (fence, connection):
            assert fence > 0
            assert info(other, "door")["session"] == 1
            other.client_kill_filter(_id=await connection.client_id())
            await until(lambda: info(other, "door") is None, "the session ends")
            with pytest.raises(ConnectionError):
                await connection.ping()
        async with session(f"redis://127.0.0.1:{server.port}", "door"):
            pass
        await until(lambda: info(other, "door") is None, "the session ends")

    asyncio.run(body())
