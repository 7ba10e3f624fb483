"""Tests of a program that locks. `redislock server -- pytest` gives them a server of their own."""

import os

import pytest
import redis
import redislock


def pay(locks: redislock.Locks, number: int) -> str:
    with locks.lock(f"invoice:{number}", wait=0):
        return "paid"


@pytest.fixture
def locks():
    with redislock.Locks(redis.Redis.from_url(os.environ["REDIS_URL"])) as locks:
        yield locks


def test_an_invoice_is_paid(locks):
    assert pay(locks, 42) == "paid"


def test_an_invoice_is_not_paid_twice_at_once(locks):
    with locks.lock("invoice:42"), pytest.raises(redislock.NotAcquired):
        pay(locks, 42)
