"""Tests the recipes of the documentation, each with several processes."""

import os
import signal
import time

import handover
import leader
import once
import pytest
import rate
import redis
import shards
from redislock import LockLost, Locks, NotAcquired

from support import fork, info, pairs, run_threads, wait_for


def connect(url):
    client = redis.Redis.from_url(url, protocol=3, decode_responses=True)
    return client, Locks(client)


@pytest.fixture
def long_leases(other):
    """The lease is long, so a killed process loses its lock only by its session."""
    other.config_set("lock.default-lease", 600_000)


def lead(url, address):
    client, locks = connect(url)

    def work(held):
        client.rpush("terms", held.fence)
        time.sleep(100)  # until it is killed

    leader.lead(locks, address, work)


def test_a_leader_is_killed_and_the_next_one_is_found_with_a_later_term(server, workers, other, long_leases):
    client, _ = connect(server.url)
    assert leader.leader(client) is None
    addresses = {f"10.0.0.{number}:80": workers.start(lead, server.url, f"10.0.0.{number}:80") for number in range(3)}
    terms = []
    while addresses:
        wait_for(lambda: other.llen("terms") > len(terms), "one leads")
        address, term = leader.leader(client)
        terms.append(term)
        assert other.lrange("terms", 0, -1) == [str(each) for each in terms]
        # The others must be in the queue before the leader is killed, so that one of them follows.
        wait_for(lambda: info(other, "leader")["waiters"] == len(addresses) - 1, "the others wait")
        os.kill(addresses.pop(address).pid, signal.SIGKILL)
    wait_for(lambda: leader.leader(client) is None, "nobody leads")
    assert terms == sorted(set(terms)) and len(terms) == 3


def run_once(url):
    client, locks = connect(url)

    def work():
        tries = client.rpush("tries", os.getpid())
        if tries == 1:
            time.sleep(100)  # until it is killed
        if tries == 2:
            raise RuntimeError("once more")

    try:
        once.once(locks, client, "report", 3600, work)
    except RuntimeError:
        pass


def test_a_run_that_fails_is_made_up_for_and_one_that_succeeds_is_the_last_of_its_period(server, workers, other):
    other.config_set("lock.default-lease", 3_000)
    other.config_set("lock.max-lease", 3_000)
    for _ in range(5):
        workers.start(run_once, server.url)
    wait_for(lambda: (info(other, "report") or {}).get("waiters") == 4 and other.llen("tries") == 1, "one works")
    killed = int(other.lindex("tries", 0))
    os.kill(killed, signal.SIGKILL)
    workers[:] = [worker for worker in workers if worker.pid != killed]
    workers.join()
    assert other.llen("tries") == 3
    assert info(other, "report") is None
    assert 3_500_000 < other.pttl("report:ran") <= 3_600_000


def work_on_a_shard(url, wanted):
    client, locks = connect(url)
    with shards.shard(locks, client, wanted) as held:
        client.hset("shards:held", held.slot, os.getpid())
        time.sleep(100)  # until it is killed


def test_a_worker_that_comes_back_has_its_number_and_others_the_lowest(server, workers, other, long_leases):
    def start(number, wanted=None):
        """Starts a worker, and waits until it has this number."""
        worker = workers.start(work_on_a_shard, server.url, wanted)
        wait_for(lambda: other.hget("shards:held", number) == str(worker.pid), f"number {number}")
        return worker

    def end(worker):
        worker.kill()
        worker.join()
        wait_for(lambda: labels().get(f"process {worker.pid}") is None, "its number is free")

    def labels():
        grants = (pairs(other.execute_command("LOCK.INFO", "shards", "FULL")) or {"grants": []})["grants"]
        return {grant["label"]: grant["slot"] for grant in map(pairs, grants)}

    first, second, third = start(1), start(2), start(3)
    end(first)
    end(second)
    second = start(2, wanted=2)
    first = start(1)
    fourth = start(4, wanted=2)  # number 2 is not free
    assert labels() == {f"process {each.pid}": number for number, each in enumerate([first, second, third, fourth], 1)}
    waiter = workers.start(work_on_a_shard, server.url, None)
    wait_for(lambda: info(other, "shards")["waiters"] == 1, "one waits")
    third.kill()
    wait_for(lambda: other.hget("shards:held", 3) == str(waiter.pid), "the waiter has number 3")


def call_service(url, calls):
    client, locks = connect(url)
    lock, made = locks.lock, []
    locks.lock = lambda key, **options: made.append(lock(key, **options)) or made[-1]

    def service(request, held):
        place = held.slot
        assert client.set(f"place:{place}", request, nx=True), f"two at place {place}"
        client.rpush("calls", place)
        client.delete(f"place:{place}")

    run_threads(4, lambda thread: [rate.call(locks, service, call) for call in range(calls)])
    client.rpush("fences", *(each.fence for each in made if each.keys == ("geocoder:rate",)))


@pytest.mark.crowd
def test_calls_of_several_processes_keep_to_places_and_rate(server, workers, other):
    for _ in range(3):
        workers.start(call_service, server.url, 3)
    workers.join()
    assert set(other.lrange("calls", 0, -1)) <= {"1", "2", "3", "4"} and other.llen("calls") == 36
    fences = sorted(map(int, other.lrange("fences", 0, -1)))  # a fence is the time of the grant in microseconds
    assert len(fences) == 36
    assert all(later - sooner >= 999_000 for sooner, later in zip(fences, fences[10:]))


def hand_over(url, number):
    client, locks = connect(url)
    client.rpush("jobs", handover.give(locks, client, "invoice", lambda: client.rpush("parts", f"first {number}")))


def take_over(url):
    client, locks = connect(url)
    handover.take(locks, client.lpop("jobs"), lambda fence: client.rpush("parts", f"second {fence}"))


def test_nobody_gets_in_between_two_processes_that_share_the_work(server, workers, other):
    for number in range(4):
        workers.start(hand_over, server.url, number)
    # A new holder begins when the one before it has done its second part.
    for done in range(4):
        wait_for(lambda: other.llen("jobs") == 1, "one has handed over")
        wait_for(lambda: info(other, "invoice")["waiters"] == 3 - done, "the others wait")
        assert other.llen("parts") == 2 * done + 1
        workers.start(take_over, server.url)
        wait_for(lambda: other.llen("parts") > 2 * done + 1, "the second part is done")
    workers.join()
    kinds = [part.split()[0] for part in other.lrange("parts", 0, -1)]
    assert kinds == ["first", "second"] * 4
    assert info(other, "invoice") is None


@pytest.mark.parametrize("taken, error", [(False, LockLost), (True, NotAcquired)])
def test_what_was_free_in_between_is_not_taken(server, workers, other, taken, error):
    workers.start(hand_over, server.url, 1)
    workers.join()
    other.execute_command("LOCK.BREAK", "invoice")
    if taken:
        other.execute_command("LOCK.ACQUIRE", "invoice")
    client, locks = connect(server.url)
    with locks, pytest.raises(error):
        handover.take(locks, client.lpop("jobs"), lambda fence: pytest.fail("the second part is done"))
    assert (info(other, "invoice") is not None) == taken
