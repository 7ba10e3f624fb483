"""Tests what ends locks besides a release: closed clients and locks, losses in nested blocks, Ctrl-C. Each holder is told once, and nothing
stays behind."""

import asyncio
import linecache
import multiprocessing
import os
import signal
import sys
import threading
import time

import pytest
import redis
import redis.asyncio
import redislock
import redislock.asyncio

from support import info, run_threads, until, wait_for


def ours():
    return [thread for thread in threading.enumerate() if thread.name == "redislock"]


def waiters(other, key):
    return (info(other, key) or {"waiters": 0})["waiters"]


def test_a_client_that_is_closed_ends_waits_and_tells_holders(server, client, locks, other):
    other.execute_command("LOCK.ACQUIRE", "window", "OWNER", "other", "PX", 600_000)
    other.config_set("lock.default-lease", 600_000)
    told, waiting, inside = [], [], threading.Event()
    held = locks.lock("door").acquire()
    held.on_lost(told.append)

    def wait():
        with pytest.raises(redislock.Closed) as raised, locks.lock("window"):
            pass
        waiting.append(str(raised.value))

    def block():
        with pytest.raises(redislock.LockLost) as raised, locks.lock("block") as inner:
            inside.set()
            wait_for(lambda: inner.lost, "the block is told")
        waiting.append(str(raised.value))

    threads = [threading.Thread(target=work) for work in (wait, block)]
    for thread in threads:
        thread.start()
    wait_for(lambda: waiters(other, "window") == 1 and inside.is_set(), "all are there")
    client.close()
    for thread in threads:
        thread.join()
    assert [str(lost) for lost in told] == ["door: the client was closed"]
    assert sorted(waiting) == ["block: the client was closed", "the client was closed: window"]
    assert not other.pubsub_channels() and not ours()
    assert [info(other, "door"), info(other, "block"), waiters(other, "window")] == [None, None, 0]
    with pytest.raises(redislock.LockLost):
        held.release()
    assert client.ping()  # the client opens again, and so do its locks
    with locks.lock("door"):
        pass
    locks.close()
    with pytest.raises(redislock.LockError):
        locks.lock("door").acquire()


def test_tasks_are_told_of_a_client_that_is_closed(server, other):
    async def block(locks, inside):
        async with locks.lock("block"):
            inside.set()
            await asyncio.sleep(60)

    async def work():
        async with redis.asyncio.Redis.from_url(server.url) as client:
            locks, told, inside = redislock.asyncio.Locks(client), [], asyncio.Event()
            held = await locks.lock("door").acquire()
            held.on_lost(told.append)
            tasks = [asyncio.create_task(locks.lock("window").acquire()), asyncio.create_task(block(locks, inside))]
            await until(lambda: waiters(other, "window") == 1 and inside.is_set(), "all are there")
            await client.aclose()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [str(lost) for lost in told] == ["door: the client was closed"]
            assert [str(error) for error in ended] == ["the client was closed: window", "block: the client was closed"]
            assert len(asyncio.all_tasks()) == 1
            with pytest.raises(redislock.LockLost):
                await held.release()
            async with locks.lock("door"):
                pass
            with pytest.raises(redislock.LockLost):
                async with locks.lock("door"):
                    await locks.close()  # works, although it ends the block that it is in
            with pytest.raises(redislock.LockError):
                await locks.lock("door").acquire()
            await until(lambda: len(asyncio.all_tasks()) == 1, "no task is left")

    other.execute_command("LOCK.ACQUIRE", "window", "OWNER", "other", "PX", 600_000)
    asyncio.run(work())
    assert not other.pubsub_channels()
    assert [info(other, "door"), info(other, "block"), waiters(other, "window")] == [None, None, 0]


def test_a_listener_may_close(client, locks, other):
    held, closed = locks.lock("door").acquire(), []
    held.on_lost(lambda lost: (client.close(), locks.close(), closed.append(lost)))
    other.execute_command("LOCK.BREAK", "door")
    wait_for(lambda: closed and not ours() and not any("lock" in each["cmd"] for each in other.client_list()), "all has ended")


def test_a_client_is_closed_though_its_server_stands_still(client, locks, other):
    locks.lock("door").acquire()
    other.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 30
    other.execute_command("CLIENT", "UNPAUSE")


def test_a_loss_in_nested_blocks(locks, other):
    with pytest.raises(redislock.LockLost) as raised, locks.lock("outer") as outer:
        with locks.lock("inner") as inner:
            other.execute_command("LOCK.BREAK", "outer")
            wait_for(lambda: outer.lost, "it is told")
        assert info(other, "inner") is None and not inner.lost
    assert raised.value is outer.lost


def test_a_loss_in_nested_blocks_of_a_task(server, other):
    async def work():
        async with redis.asyncio.Redis.from_url(server.url) as client, redislock.asyncio.Locks(client) as locks:
            with pytest.raises(redislock.LockLost) as raised:
                async with locks.lock("outer") as outer, locks.lock("inner") as inner:
                    other.execute_command("LOCK.BREAK", "outer")
                    await asyncio.sleep(60)
            assert raised.value is outer.lost and not inner.lost

    asyncio.run(work())
    assert other.keys() == []


def test_a_task_finds_out_that_its_lease_is_over_before_the_loop_does(server):
    async def work():
        async with redis.asyncio.Redis.from_url(server.url) as client, redislock.asyncio.Locks(client) as locks:
            held = await locks.lock("door", lease=0.2).acquire()
            time.sleep(0.2)
            with pytest.raises(redislock.LockLost):
                held.check()

    asyncio.run(work())


def interrupted(at, work):
    """Raises Ctrl-C at this line of the package. Returns False if fewer lines ran."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if "/redislock/" not in frame.f_code.co_filename:
            return None if event == "call" and "/redis/" not in frame.f_code.co_filename else trace
        # Skip `with` lines: at their end, a tracer runs before the lock is released, but a signal does not.
        file = frame.f_code.co_filename
        if event == "line" and file.endswith("_core.py") and "with " not in linecache.getline(file, frame.f_lineno):
            lines += 1
            if lines == at:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return lines >= at


@pytest.mark.parametrize("what", ["acquire", "release"])
def test_ctrl_c_at_each_line(locks, other, what):
    other.config_set("lock.default-lease", 600_000)  # so that a lock that is soon free was released, and did not lapse
    at = 1
    while True:
        lock = locks.lock("door", wait=0)
        if what == "release":
            lock.acquire()
            reached = interrupted(at, lock.release)
        else:
            reached = interrupted(at, lock.acquire)
            if not reached:
                lock.release()
        wait_for(lambda: info(other, "door") is None, f"it is free after line {at}")
        if not reached:
            break
        at += 1
    assert at > 10
    wait_for(lambda: not lock._core.handles, "nothing is left")


def test_ctrl_c_while_the_release_waits_for_its_answer(locks, other):
    other.config_set("lock.default-lease", 600_000)
    lock = locks.lock("door").acquire()
    other.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")

    def interrupt():
        wait_for(lambda: any(each["cmd"] == "lock.release" for each in other.client_list()), "it waits")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes of a shell ignore SIGINT
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        lock.release()
        time.sleep(60)
    thread.join()
    other.execute_command("CLIENT", "UNPAUSE")
    wait_for(lambda: info(other, "door") is None, "it was given back all the same")


def hold(url):
    redislock.Locks(redis.Redis.from_url(url)).lock("door", lease=600).acquire()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_of_multiprocessing_gives_back_what_it_renews(server, client, locks, other, method):
    """A `multiprocessing` process ends without running `atexit` handlers."""
    with locks.lock("window"):
        process = multiprocessing.get_context(method).Process(target=hold, args=(server.url,))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert info(other, "door") is None and info(other, "window")


def test_two_threads_of_a_child_are_its_first_at_once(client, locks, other):
    """Both children inherit the locks of their parent."""
    with locks.lock("door"):
        for _ in range(20):
            child = os.fork()
            if not child:
                code = 1
                try:
                    sys.setswitchinterval(1e-6)
                    at_once = threading.Barrier(4)

                    def take(number):
                        at_once.wait()
                        with locks.lock("window", wait=30, lease=60):
                            pass

                    run_threads(4, take)
                    code = 0 if len(ours()) == 3 else 2
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
            assert len(other.pubsub_channels()) == 1


def test_what_a_signal_handler_raises_ends_the_wait(locks, other):
    other.execute_command("LOCK.ACQUIRE", "window", "OWNER", "other", "PX", 600_000)

    class SoftTimeLimitExceeded(Exception):
        pass

    def handler(_, frame):
        while frame is not None:
            if frame.f_code.co_name == "__del__":  # Python drops exceptions in __del__: interrupt a moment later
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                return
            frame = frame.f_back
        raise SoftTimeLimitExceeded

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(5):  # the signal mostly comes while redis-py reads the subscription
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(SoftTimeLimitExceeded), locks.lock("window", wait=60):
                pass
    finally:
        signal.signal(signal.SIGALRM, before)
    wait_for(lambda: waiters(other, "window") == 0, "the places are given up")
