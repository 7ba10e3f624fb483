"""Tests what only concerns Python: forks, all kinds of clients, listeners that fail."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import redis
import redis.asyncio
import redislock
import redislock.asyncio

from support import info, wait_for


def test_a_child_holds_nothing_and_begins_anew(server, other):
    with redis.Redis.from_url(server.url) as client, redislock.Locks(client) as locks:
        with pytest.raises(redislock.LockLost), locks.lock("door") as held:
            child = os.fork()
            if not child:
                code = 1
                try:
                    held.release()  # the end of the block does the same
                    with pytest.raises(redislock.NotAcquired), locks.lock("door", wait=0.5):
                        pass
                    with locks.lock("other", wait=1):
                        code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
            assert info(other, "door")["fence"] == held.fence
            other.execute_command("LOCK.BREAK", "door")
            wait_for(lambda: held.lost, "the parent still hears")


def test_a_listener_that_fails_hinders_no_other(server, other):
    with redis.Redis.from_url(server.url) as client, redislock.Locks(client) as locks:
        first, second, heard = locks.lock("first").acquire(), locks.lock("second").acquire(), []
        first.on_lost(lambda lost: 1 / 0)
        first.on_lost(lambda lost: sys.exit())  # ends only the thread that noticed the loss
        first.on_lost(heard.append)
        second.on_lost(heard.append)
        for key in ("first", "second"):
            other.execute_command("LOCK.BREAK", key)
        wait_for(lambda: len(heard) == 2, "both are told")


@pytest.mark.parametrize("options", [{"decode_responses": True}, {"encoding": "latin-1"}, {"single_connection_client": True},
                                     {"protocol": 3}, {"protocol": 3, "decode_responses": True}, {"socket_timeout": 0.3}])
def test_any_client_will_do(server, other, options):
    with redis.Redis.from_url(server.url, **options) as client, redislock.Locks(client) as locks:
        with pytest.raises(redislock.LockLost), locks.lock("d\u00f6\u00f6r", owner=b"\xff \x00") as held:
            waiting = locks.lock("d\u00f6\u00f6r", wait=0.01)
            with pytest.raises(redislock.NotAcquired):
                waiting.acquire()
            client.execute_command("LOCK.BREAK", "d\u00f6\u00f6r")
            wait_for(lambda: held.lost, "an owner of any bytes hears")


def test_a_lock_is_used_once(server, other):
    with redis.Redis.from_url(server.url) as client, redislock.Locks(client) as locks:
        with locks.lock("door") as held:
            with pytest.raises(redislock.LockError):
                held.acquire()
            held.extend(30)  # the lock stays held
            assert info(other, "door")["fence"] == held.fence
        with pytest.raises(redislock.LockError):
            held.acquire()


@pytest.mark.parametrize("options, said", [
    ({"wait": "10"}, "wait must be a number of seconds or a timedelta: '10'"),
    ({"lease": True}, "lease must be a number of seconds or a timedelta: True"),
    ({"leas": 1}, "there is no option leas"),
    ({"shared": 1}, "shared must be bool: 1"),
    ({"limit": 2.0}, "limit must be int: 2.0"),
    ({"limit": True}, "limit must be int: True"),
    ({"owner": 7}, "owner must be str or bytes: 7"),
    ({"sync": 1}, "sync must be tuple or list: 1"),
    ({"sync": (1,)}, "sync must be a number of replicas and a time: (1,)"),
    ({"sync": (1, "2")}, "sync must be a number of seconds or a timedelta: '2'"),
    ({"renew": None}, "renew must be bool: None")])
def test_an_option_of_the_wrong_kind_is_named(options, said):
    for locks in (redislock.Locks(redis.Redis()), redislock.asyncio.Locks(redis.asyncio.Redis())):
        with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
            locks.lock("door", **options)
        assert locks.lock("door", wait=None, limit=None, label=None, owner=None, sync=None)


def test_what_is_no_client_and_no_key_is_named(server):
    for kind, name in ((redislock.Locks, "redis"), (redislock.asyncio.Locks, "redis.asyncio")):
        with pytest.raises(TypeError, match=f"^client must be a {name}.Redis or {name}.RedisCluster: 'redis://'$"):
            kind("redis://")
    with pytest.raises(TypeError, match="^a key must be str or bytes: 42$"):
        redislock.Locks(redis.Redis()).lock(42)
    with redis.Redis.from_url(server.url) as client, redislock.Locks(client) as locks, locks.lock("door") as held:
        with pytest.raises(TypeError, match="^lease must be a number"):
            held.extend("10")
        assert held.extend(20) == 20


def test_a_try_gives_none_or_a_lock_for_a_block(server, other):
    with redis.Redis.from_url(server.url) as client, redislock.Locks(client) as locks:
        held = locks.try_acquire("door", lease=60)
        assert locks.try_acquire("door") is None
        with held:
            assert info(other, "door")["fence"] == held.fence
            with pytest.raises(redislock.LockError), held:
                pytest.fail("two blocks")
        assert info(other, "door") is None
        held = locks.try_acquire("door")
        other.execute_command("LOCK.BREAK", "door")
        wait_for(lambda: held.lost, "it hears")
        with pytest.raises(redislock.LockLost), held:
            pytest.fail("a block of a lost lock")

    async def work():
        async with redis.asyncio.Redis.from_url(server.url) as client, redislock.asyncio.Locks(client) as locks:
            async with await locks.try_acquire("door") as held:
                assert info(other, "door")["fence"] == held.fence
                assert await locks.try_acquire("door") is None
                assert await held.extend(20) == 20
            assert info(other, "door") is None

    asyncio.run(work())


def test_a_server_that_is_not_there_is_told_at_once():
    with redis.Redis(port=1) as client, redislock.Locks(client) as locks, pytest.raises(redis.ConnectionError):
        locks.lock("door").acquire()


def test_locks_of_another_event_loop_are_refused(server):
    """Locks can't be used in a second event loop: the tasks that read messages ended with the first one."""

    async def take(locks):
        await (await locks.lock("door").acquire()).release()

    async def alone():
        locks = redislock.asyncio.Locks(redis.asyncio.Redis.from_url(server.url))
        await take(locks)
        return locks

    locks = asyncio.run(alone())
    with pytest.raises(redislock.LockError):
        asyncio.run(take(locks))


def test_a_task_that_is_cancelled_twice_leaves_nothing_held(server, other):
    """A wait is cancelled while the server has its acquire and does not answer: only the answer tells what to give up."""

    async def condition(true):
        while not true():
            await asyncio.sleep(0.001)

    async def work():
        async with redis.asyncio.Redis.from_url(server.url) as client, redislock.asyncio.Locks(client) as locks:
            await (await locks.lock("door").acquire()).release()
            other.execute_command("CLIENT", "PAUSE", 30000, "WRITE")
            task = asyncio.create_task(locks.lock("door", owner="me").acquire())
            await condition(lambda: any(each["cmd"] == "lock.acquire" for each in other.client_list()))
            for _ in range(2):
                task.cancel()
                await asyncio.sleep(0)
            await condition(task.cancelled)  # the task itself does not wait for it
            other.execute_command("CLIENT", "UNPAUSE")
            await condition(lambda: server_calls() == 2 and not info(other, "door"))

    def server_calls():
        return other.info("commandstats")["cmdstat_lock.acquire"]["calls"]

    asyncio.run(asyncio.wait_for(work(), 60))


def hold_and_fork(url, closes):
    """Begins a session, and then starts a child, which reports its process id."""
    connection, other = redis.Redis.from_url(url, single_connection_client=True), redis.Redis.from_url(url)
    assert connection.execute_command("LOCK.ACQUIRE", "door", "SESSION", "PX", 600_000)
    if not os.fork():
        if closes:
            connection.connection.disconnect()
        other.set("child", os.getpid())
    signal.pause()


@pytest.mark.parametrize("closes", [True, False])
def test_a_session_lives_on_in_a_child_unless_that_one_closes_the_connection(server, workers, other, closes):
    worker = workers.start(hold_and_fork, server.url, closes)
    child = int(wait_for(lambda: other.get("child"), "the child is there"))
    try:
        worker.kill()
        worker.join()
        other.ping()  # by now, the server would have noticed a closed connection
        if closes:
            wait_for(lambda: info(other, "door") is None, "the lock is free")
        else:
            assert info(other, "door")["session"] == 1
    finally:
        os.kill(child, signal.SIGKILL)
    wait_for(lambda: info(other, "door") is None, "the lock is free")


PROGRAM = """
import sys, redis, redislock
locks = redislock.Locks(redis.Redis.from_url(sys.argv[1]))
locks.lock("renewed").acquire()
locks.lock("kept", renew=False).acquire()
{more}
"""


@pytest.mark.parametrize("more", ["", "raise SystemExit(3)", "raise ValueError"])
def test_a_program_that_ends_gives_back_what_it_renews(server, other, more):
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", PROGRAM.format(more=more), server.url], stderr=subprocess.DEVNULL, timeout=60)
    assert info(other, "renewed") is None
    assert info(other, "kept") is not None
    assert time.monotonic() - began < 29, "it may have ended with its lease"


TASKS = """
import asyncio, sys, redis.asyncio
from redislock.asyncio import Locks

async def main():
    locks = Locks(redis.asyncio.Redis.from_url(sys.argv[1]))
    await locks.lock("renewed").acquire()
    await locks.lock("kept", renew=False).acquire()
    {more}

asyncio.run(main())
"""


@pytest.mark.parametrize("more", ["", "sys.exit(3)", "await redis.asyncio.Redis.from_url(sys.argv[1]).client_pause(600_000, all=False)"])
def test_a_program_of_tasks_that_ends_gives_back_what_it_renews(server, other, more):
    other.config_set("lock.default-lease", 600_000)
    subprocess.run([sys.executable, "-c", TASKS.format(more=more), server.url], stderr=subprocess.DEVNULL, timeout=60)
    other.client_unpause()
    wait_for(lambda: info(other, "renewed") is None or "pause" in more, "it is given back")
    assert info(other, "kept") is not None


def test_a_program_ends_without_its_server(server):
    """A server that stands still keeps it for a second, not for as long as the client waits for answers."""
    more = f"import os, signal; os.kill({server.process.pid}, signal.SIGSTOP)"
    try:
        subprocess.run([sys.executable, "-c", PROGRAM.format(more=more), server.url], timeout=60, check=True)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def test_a_child_gives_back_nothing_of_its_parent(server, other):
    more = "import os\nif not os.fork(): sys.exit()\nos.wait()\nos._exit(0)"
    subprocess.run([sys.executable, "-c", PROGRAM.format(more=more), server.url], timeout=60, check=True)
    assert info(other, "renewed") is not None
