"""Tests the documentation's transfers, which take several locks at once: the sum must not change."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from redis.exceptions import RedisClusterException
from redislock import LockLost
from transfer import Accounts

from support import run_threads, wait_for

NAMES = ["ann", "bea", "cem", "dov", "eva"]


@pytest.fixture
def accounts(tmp_path, locks):
    accounts = Accounts(locks, tmp_path)
    for name in NAMES:
        accounts.open(name, 1000)
    return accounts


def total(accounts):
    return sum(accounts.balance(name) for name in NAMES)


@pytest.mark.crowd
def test_two_hundred_tasks_transfer_and_no_money_is_made_or_lost(accounts, other):
    fences, greatest = set(), {}
    mutex = threading.Lock()

    def work(number):
        chance = random.Random(number)
        for _ in range(5):
            source, target = chance.sample(NAMES, 2)
            fence = accounts.transfer(source, target, chance.randint(1, 50))
            with mutex:
                fences.add(fence)
                for name in (source, target):
                    greatest[name] = max(fence, greatest.get(name, 0))

    run_threads(200, work)
    assert total(accounts) == 5000
    assert len(fences) == 1000
    assert {name: accounts.fence(name) for name in NAMES} == greatest
    # If the locks were taken one after the other, two transfers could deadlock until a wait times out.
    assert other.info("lock")["lock_timeouts"] == 0
    assert other.keys() == []


def test_the_sum_does_not_hold_without_the_locks(accounts, monkeypatch):
    """A control without locks, to show that the race is real: both read before either of them writes."""
    together = threading.Barrier(2)
    load = accounts._load

    def slow(name):
        account = load(name)
        together.wait(60)
        return account

    monkeypatch.setattr(accounts, "_load", slow)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(accounts.move, "ann", "bea", 100, 1)
        second = threads.submit(accounts.move, "ann", "cem", 100, 2)
        first.result(60), second.result(60)
    monkeypatch.undo()
    assert total(accounts) != 5000


def test_a_lock_that_was_lost_is_told_and_the_other_one_released(locks, other):
    with pytest.raises(LockLost, match="account:bea"), locks.lock("account:ann", "account:bea", lease=600) as held:
        other.execute_command("LOCK.BREAK", "account:bea")
        wait_for(lambda: held.lost, "the holder hears")
    # The block ends at once. The other lock is released in the background, since the server may be away.
    wait_for(lambda: other.keys() == [], "the other one is released")
    # An error in the block takes precedence over the loss.
    with pytest.raises(ZeroDivisionError), locks.lock("account:ann", "account:bea", lease=600):
        other.execute_command("LOCK.BREAK", "account:bea")
        1 / 0
    wait_for(lambda: other.keys() == [], "the other one is released")


def test_a_late_transfer_changes_neither_account(accounts):
    fence = accounts.transfer("ann", "bea", 10)
    with pytest.raises(RuntimeError, match="late"):
        accounts.move("ann", "cem", 10, fence - 1)
    assert (accounts.balance("ann"), accounts.balance("cem")) == (990, 1000)
    assert total(accounts) == 5000


def test_an_account_to_itself_is_refused(accounts):
    with pytest.raises(ValueError, match="each key once"):
        accounts.transfer("ann", "ann", 10)
    assert accounts.balance("ann") == 1000


def test_all_keys_of_a_command_are_in_one_slot_of_a_cluster():
    """In a cluster, redis-py asks the server which arguments are keys."""
    with redis.RedisCluster.from_url(os.environ["CLUSTER_URL"]) as cluster:
        keys = ["{bank}:ann", "{bank}:bea"]
        owner, fences, holds, lease = cluster.execute_command("LOCK.MACQUIRE", 2, *keys, "OWNER", "me", "PX", 60_000)
        assert (owner, holds, lease) == (b"me", [1, 1], 60_000)
        assert cluster.execute_command("LOCK.MEXTEND", 2, *keys, "me", "FENCE", fences[0]) == 30_000
        assert cluster.execute_command("LOCK.MRELEASE", 3, *keys, "{bank}:cem", "me") == [0, 0, None]
        with pytest.raises(RedisClusterException, match="same key slot"):
            cluster.execute_command("LOCK.MACQUIRE", 2, "ann", "bea")
