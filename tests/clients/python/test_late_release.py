"""The classic mistake: a holder that is too late deletes the next holder's lock. Here it is told NOTHELD."""

import pytest
from redis.exceptions import ResponseError

from support import info, wait_for


@pytest.fixture
def a(server):
    with server.connect() as client:
        yield client


@pytest.fixture
def b(server):
    with server.connect() as client:
        yield client


def acquire(client, owner, lease_ms):
    return client.execute_command("LOCK.ACQUIRE", "job", "OWNER", owner, "PX", lease_ms, "BLOCK", 0)


def test_the_next_owner_keeps_the_lock(a, b):
    acquire(a, "A", 50)
    _, fence, _, _ = acquire(b, "B", 60_000)  # waits until A's lease lapses
    with pytest.raises(ResponseError, match="^NOTHELD "):
        a.execute_command("LOCK.RELEASE", "job", "A")
    now = info(a, "job")
    assert (now["owner"], now["fence"], now["holds"]) == ("B", fence, 1)
    assert b.execute_command("LOCK.RELEASE", "job", "B") == 0
    assert info(a, "job") is None


def test_the_same_owners_next_grant_is_safe_from_an_old_fence(a, b):
    _, old, _, _ = acquire(a, "A", 50)
    wait_for(lambda: info(b, "job") is None, "the lease lapses")
    _, new, _, _ = acquire(b, "A", 60_000)
    assert new > old
    with pytest.raises(ResponseError, match="^NOTHELD "):
        a.execute_command("LOCK.RELEASE", "job", "A", "FENCE", old)
    now = info(a, "job")
    assert (now["owner"], now["fence"], now["holds"]) == ("A", new, 1)
    assert b.execute_command("LOCK.RELEASE", "job", "A", "FENCE", new) == 0
    assert info(a, "job") is None
