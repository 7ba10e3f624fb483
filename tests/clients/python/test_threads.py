"""Many threads in one process, with the clients as docs/clients/python.md makes them: waits need none of the connections of the others."""

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from lock import Locks, connect
from simple_lock import lock

from support import info, locks_for_threads, run_threads, wait_for


@pytest.fixture
def client(server):
    with connect(server.url) as client:
        yield client


@pytest.fixture
def locks(client, server):
    return locks_for_threads(client, server)


def take_turns(locks, key, threads, rounds):
    inside, served, fences = Counter(), Counter(), []

    def work(number):
        for _ in range(rounds):
            with locks.hold(key) as fence:
                inside["now"] += 1
                assert inside["now"] == 1
                time.sleep(0.0005)  # the others' chance
                inside["now"] -= 1
                served[number] += 1
                fences.append(fence)

    run_threads(threads, work)
    assert list(served.values()) == [rounds] * threads
    assert fences == sorted(fences)


def test_a_hundred_threads_take_turns_at_one_lock(client, locks):
    take_turns(locks, "door", threads=100, rounds=10)
    assert info(client, "door") is None


def test_a_hundred_threads_take_turns_with_the_lock_of_the_readme(server, client):
    inside, served = Counter(), Counter()

    def work(number):
        with lock(server.url, "door", wait_ms=60_000) as fence:
            inside["now"] += 1
            assert inside["now"] == 1
            assert info(client, "door")[b"fence"] == fence
            inside["now"] -= 1
            served[number] += 1

    run_threads(100, work)
    assert list(served.values()) == [1] * 100
    assert info(client, "door") is None


def test_the_lock_of_the_readme_is_free_when_its_block_fails(server, client):
    with pytest.raises(ValueError), lock(server.url, "door"):
        assert info(client, "door")[b"session"] == 1
        raise ValueError
    wait_for(lambda: info(client, "door") is None, "the session ends with its connection")


def test_threads_take_turns_on_a_cluster():
    url = os.environ["CLUSTER_URL"]
    pool = {"connection_pool_class": redis.BlockingConnectionPool, "max_connections": 100, "timeout": 60}
    with redis.RedisCluster.from_url(url) as client, redis.RedisCluster.from_url(url, socket_timeout=65, **pool) as waiting:
        locks = Locks(client, waiting, wait_ms=60_000)
        take_turns(locks, "door", threads=20, rounds=10)
        with locks.hold("door"), pytest.raises(TimeoutError), Locks(client, waiting, wait_ms=20).hold("door"):
            pytest.fail("two have the lock")


def test_those_who_wait_for_one_lock_do_not_hinder_another(server, client):
    """The holder of the outer lock waits for the inner one, while more threads than there are connections wait for the outer."""
    locks = locks_for_threads(client, server, waits=2)
    client.execute_command("LOCK.ACQUIRE", "inner", "OWNER", "other", "PX", 60_000)
    served = []

    def enter(key):
        with locks.hold(key):
            served.append(key)

    with ThreadPoolExecutor(21) as threads:
        with locks.hold("outer"):
            later = [threads.submit(enter, "outer") for _ in range(20)]
            wait_for(lambda: info(client, "outer")[b"waiters"] == 1, "one of them waits at the server")
            inner = threads.submit(enter, "inner")
            wait_for(lambda: info(client, "inner")[b"waiters"] == 1, "the holder of the outer lock waits for the inner one")
            client.execute_command("LOCK.RELEASE", "inner", "other")
            inner.result(30)
        for done in later:
            done.result(30)
    assert served == ["inner"] + ["outer"] * 20


def test_those_who_wait_in_vain_are_told(server, client):
    client.execute_command("LOCK.ACQUIRE", "door", "OWNER", "other", "PX", 60_000)
    locks = locks_for_threads(client, server)
    locks.wait_ms = 50

    def enter(number):
        with pytest.raises(TimeoutError), locks.hold("door"):
            pytest.fail("two have the lock")

    run_threads(20, enter)


def test_waits_need_none_of_the_clients_connections(server):
    with redis.Redis.from_url(server.url, max_connections=3) as client:
        locks = locks_for_threads(client, server)

        def enter(key):
            with locks.hold(key):
                pass

        with ThreadPoolExecutor(8) as threads:
            waiting = []
            for number in range(8):
                client.execute_command("LOCK.ACQUIRE", f"door:{number}", "OWNER", "other", "PX", 60_000)
                waiting.append(threads.submit(enter, f"door:{number}"))
                wait_for(lambda: info(client, f"door:{number}")[b"waiters"] == 1, "it waits at the server")
            for number, done in enumerate(waiting):
                client.execute_command("LOCK.RELEASE", f"door:{number}", "other")
                done.result(30)


def test_all_are_served_though_their_connections_are_cut(server):
    """Three times, with new clients: redis-py gives up on a connection that it has just made anew and that is cut at once."""
    for _ in range(3):
        served = []
        with server.connect() as other, connect(server.url) as client, connect(server.url, socket_timeout=65) as waiting:
            locks = Locks(client, waiting, wait_ms=60_000)

            def work(number):
                for turn in range(3):
                    try:
                        with locks.hold(f"door:{number % 10}"):
                            served.append(number)
                            if (number, turn) == (0, 0):
                                wait_for(lambda: info(other, "door:0")["waiters"] == 1, "someone waits")
                                assert other.client_kill_filter(_type="normal") > 0
                    except redis.ResponseError as error:  # the release was sent again: the first one had done its work
                        assert str(error).startswith("NOTHELD ")

            run_threads(100, work)
            assert Counter(served) == dict.fromkeys(range(100), 3)
            assert other.keys() == []


def test_more_threads_than_connections_find_one_each(client, locks):
    """Each has a lock of its own, so nobody waits for a lock, and all acquire and release at the same time."""

    def work(number):
        for _ in range(10):
            with locks.hold(f"door:{number}"):
                pass

    run_threads(300, work)
    assert client.keys() == []
