"""What docs/migrating.md says of old and new locks beside each other, with redis-py's own lock as the old one."""

import pytest
from both import both
from redis.exceptions import LockError, LockNotOwnedError, ResponseError

from support import wait_for


@pytest.fixture
def client(server):
    with server.connect() as client:
        yield client


def test_both_keep_out_those_that_know_one_only(client, locks):
    with both(client, locks, "job") as fence:
        assert fence > 0
        with pytest.raises(LockError), client.lock("lock:job", blocking=False):
            pytest.fail("two at work: both and old")
        with pytest.raises(TimeoutError), locks.lock("redislock:job", wait=0.001):
            pytest.fail("two at work: both and new")
        with pytest.raises(LockError), both(client, locks, "job", wait=0.001):
            pytest.fail("two at work: both and both")
    with client.lock("lock:job", timeout=30), pytest.raises(LockError), both(client, locks, "job", wait=0.001):
        pytest.fail("two at work: old and both")
    with locks.lock("redislock:job"), pytest.raises(TimeoutError), both(client, locks, "job", wait=0.001):
        pytest.fail("two at work: new and both")
    with both(client, locks, "job") as later:
        assert later > fence
    assert client.keys() == []


def test_one_key_can_not_be_both(client, locks):
    with client.lock("job", timeout=30), pytest.raises(ResponseError, match="^WRONGTYPE "), locks.lock("job"):
        pytest.fail("a lock over a string")
    with locks.lock("job"):
        assert not client.lock("job", timeout=30, blocking=False).acquire()
        old = client.lock("job")
        old.local.token = b"token"
        with pytest.raises(ResponseError, match="WRONGTYPE "):
            old.release()


def test_an_extension_counts_from_now_and_a_lost_lock_is_told(client, locks):
    old = client.lock("old", timeout=30)
    assert old.acquire()
    old.extend(30)
    assert client.pttl("old") > 31_000  # added to what was left
    _, fence, *_ = client.execute_command("LOCK.ACQUIRE", "new", "OWNER", "me", "PX", 30_000)
    assert client.execute_command("LOCK.EXTEND", "new", "me", "PX", 30_000, "FENCE", fence) == 30_000
    client.execute_command("LOCK.EXTEND", "new", "me", "PX", 1)
    client.delete("old")
    with pytest.raises(LockNotOwnedError):
        old.release()
    wait_for(lambda: not client.exists("new"), "the lease lapses")
    with pytest.raises(ResponseError, match="^NOTHELD "):
        client.execute_command("LOCK.RELEASE", "new", "me")
