"""Tests the class with redis-py's interface, with redis-py and with django-redis."""

import threading

import pytest
from redis.exceptions import LockError, LockNotOwnedError
from redislock.redis_lock import Lock, Redis

from support import info, wait_for


@pytest.fixture
def client(server):
    with Redis.from_url(server.url) as client:
        yield client


def test_it_is_held_for_the_block_and_others_wait_or_fail(client, other):
    with client.lock("door", timeout=30) as lock:
        assert isinstance(lock, Lock) and lock.locked() and lock.owned()
        assert info(other, "door")["holds"] == 1
        second = client.lock("door")
        assert not second.acquire(blocking=False) and not second.acquire(blocking_timeout=0.05) and not second.owned()
        with pytest.raises(LockError), client.lock("door", blocking_timeout=0.05):
            pytest.fail("two hold it")
    assert info(other, "door") is None and not lock.locked() and not lock.owned()
    with pytest.raises(LockError):
        lock.release()


def test_a_timeout_is_the_end_unless_it_is_extended(client, other):
    lock = client.lock("door", timeout=1)
    assert lock.acquire()
    # Redis 8 may expire a key 1 ms early, so the module adds up to 1 ms to the TTL: see docs/words.md.
    assert lock.extend(100) and 100_000 < other.pttl("door") <= 101_001
    assert lock.extend(50, replace_ttl=True) and 49_000 < other.pttl("door") <= 50_001
    assert lock.reacquire() and other.pttl("door") <= 1001
    wait_for(lambda: info(other, "door") is None, "the timeout")
    assert not lock.owned()
    with pytest.raises(LockNotOwnedError):
        lock.release()


def test_without_a_timeout_it_lasts(client, other):
    other.config_set("lock.default-lease", 1500)
    with client.lock("door"):
        before = other.info("commandstats").get("cmdstat_lock.extend", {"calls": 0})["calls"]
        wait_for(lambda: other.info("commandstats").get("cmdstat_lock.extend", {"calls": 0})["calls"] >= before + 6, "renewals")
        assert info(other, "door")


def test_another_thread_does_not_see_the_token_unless_told_to(client):
    for thread_local in (True, False):
        lock = client.lock("door", thread_local=thread_local)
        assert lock.acquire()
        seen = []
        thread = threading.Thread(target=lambda: seen.append(lock.local.__dict__.get("token") is not None))
        thread.start()
        thread.join()
        assert seen == [not thread_local]
        lock.release()


def test_a_broken_lock_is_told(client, other):
    with pytest.raises(LockNotOwnedError), client.lock("door") as lock:
        other.execute_command("LOCK.BREAK", "door")
        wait_for(lambda: not lock.owned(), "it knows")
    with client.lock("door", raise_on_release_error=False):
        other.execute_command("LOCK.BREAK", "door")


def test_django_redis_takes_it(server, other):
    from django.conf import settings

    options = {"CLIENT_CLASS": "django_redis.client.DefaultClient", "REDIS_CLIENT_CLASS": "redislock.redis_lock.Redis"}
    settings.configure(CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": server.url, "OPTIONS": options}})
    from django.core.cache import cache
    from django_redis import get_redis_connection

    with cache.lock("door", timeout=30) as lock:
        assert isinstance(lock, Lock)
        [key] = other.keys()
        assert other.type(key) == "lockstate"
        assert not cache.lock("door").acquire(blocking=False)
    assert other.keys() == []
    get_redis_connection().close()  # closes its locks, too
