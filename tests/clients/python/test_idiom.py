"""The package, over RESP2 and RESP3: its lock waits, excludes, and is always given back."""

import pytest
import redislock

from support import connect, held, info, wait_for


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def protocol(request):
    return request.param


@pytest.fixture
def client(server, protocol):
    with server.connect(protocol=protocol) as client:
        yield client


@pytest.fixture
def other(server, protocol):
    with server.connect(protocol=protocol) as other:
        yield other


def try_acquire(client):
    return client.execute_command("LOCK.ACQUIRE", "door", "OWNER", "other", "PX", 60_000)


def test_the_lock_is_held_for_the_block_and_free_after_it(client, other):
    with held(client, "door") as fence:
        assert try_acquire(other) is None
        now = info(other, "door")
        assert (now["fence"], now["holds"], now["waiters"]) == (fence, 1, 0)
        assert 0 < now["lease-ms"] <= 10_000
    owner, next_fence, holds, lease = try_acquire(other)
    assert (owner, holds, lease) == ("other", 1, 60_000)
    assert next_fence > fence


def test_an_exception_gives_the_lock_back(client, other):
    with pytest.raises(ZeroDivisionError), held(client, "door"):
        assert try_acquire(other) is None
        1 / 0
    assert try_acquire(other)


def enter(port, protocol):
    with connect(port, protocol=protocol) as client, held(client, "door"):
        client.rpush("entered", "second")


def test_it_waits_for_its_turn(server, workers, protocol, client, other):
    with held(client, "door"):
        workers.start(enter, server.port, protocol)
        wait_for(lambda: info(other, "door")["waiters"] == 1, "the other one waits")
        client.rpush("entered", "first")
    workers.join()
    assert client.lrange("entered", 0, -1) == ["first", "second"]


def test_it_waits_no_longer_than_asked(client, other):
    with held(other, "door", lease_ms=60_000), pytest.raises(TimeoutError), held(client, "door", wait_ms=20):
        pytest.fail("two have the lock")


def test_a_lost_lock_does_not_go_unnoticed(client, other):
    with pytest.raises(redislock.LockLost), held(client, "door", lease_ms=50):
        wait_for(lambda: try_acquire(other), "the lease lapses")


def test_a_lost_lock_does_not_hide_what_went_wrong_in_the_block(client, other):
    with pytest.raises(ZeroDivisionError), held(client, "door", lease_ms=50):
        wait_for(lambda: try_acquire(other), "the lease lapses")
        1 / 0
