"""Tests the documentation's program for writes to the lock's own server, with the client of the README."""

import os
from uuid import uuid4

import pytest
import redis
from guarded_write import write
from redislock import LockLost


@pytest.fixture(params=[2, 3, "cluster"], ids=["RESP2", "RESP3", "cluster"])
def client(server, request):
    if request.param == "cluster":
        client = redis.RedisCluster.from_url(os.environ["CLUSTER_URL"])
    else:
        client = redis.Redis.from_pool(redis.BlockingConnectionPool.from_url(server.url, timeout=60, protocol=request.param))
    with client:
        yield client


@pytest.fixture
def key():
    """A new name, since all tests share the cluster."""
    return f"{{{uuid4()}}}"


def test_a_stale_holder_writes_nothing(client, key):
    def lose_and_set(pipe):
        assert client.execute_command("LOCK.BREAK", key) == 1
        pipe.set(f"{key}:data", "stale")

    fence = client.execute_command("LOCK.ACQUIRE", key)[1]
    write(client, key, fence, lambda pipe: pipe.set(f"{key}:data", "first"))
    # First the lock ends between the check and the write; then it is free; then somebody else holds it.
    for work in (lose_and_set, lambda pipe: pipe.set(f"{key}:data", "stale"), lambda pipe: pipe.set(f"{key}:data", "stale")):
        with pytest.raises(LockLost):
            write(client, key, fence, work)
        if work is not lose_and_set:
            client.execute_command("LOCK.ACQUIRE", key, "OWNER", "other")
    assert client.get(f"{key}:data") == b"first"


def test_an_extension_in_between_has_it_tried_again(client, key):
    owner, fence, *_ = client.execute_command("LOCK.ACQUIRE", key, "PX", 60_000)
    tries = []

    def extend_and_set(pipe):
        if not tries:
            client.execute_command("LOCK.EXTEND", key, owner, "PX", 50_000)
        tries.append(fence)
        pipe.set(f"{key}:data", len(tries))

    write(client, key, fence, extend_and_set)
    assert (len(tries), client.get(f"{key}:data")) == (2, b"2")
