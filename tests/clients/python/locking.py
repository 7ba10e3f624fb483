"""The idiom: a lock around a block of code, with nothing but two raw commands. Copy it into your project."""

from contextlib import contextmanager
from uuid import uuid4


@contextmanager
def held(client, key, lease_ms=10_000, wait_ms=0):
    """Waits for the lock (0: without limit), holds it for the block, and gives its fencing token.

    Its release raises NOTHELD where the lease had lapsed. The client needs a `socket_timeout` above `wait_ms`, or None.
    `ONCE`: redis-py asks again by itself when it loses a connection.
    """
    owner = str(uuid4())
    grant = client.execute_command("LOCK.ACQUIRE", key, "OWNER", owner, "PX", lease_ms, "BLOCK", wait_ms, "ONCE")
    if grant is None:
        raise TimeoutError(f"{key} is still another's after {wait_ms} ms")
    try:
        yield grant[1]
    finally:
        client.execute_command("LOCK.RELEASE", key, owner, "FENCE", grant[1])
