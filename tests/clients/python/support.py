"""Helpers of the tests: a server, connections to it, worker processes that end with the test, and waiting."""

import asyncio
import multiprocessing
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from redis import Redis

sys.path.append(str(Path(__file__).parent.parent / "conformance/driver"))
import servers  # noqa: E402

fork = multiprocessing.get_context("fork")
LIMIT_S = 60


def connect(port, **options):
    """A connection without a timeout, for long waits: by default, redis-py gives up after 5 s."""
    return Redis("127.0.0.1", port, **{"decode_responses": True, "socket_timeout": None, **options})


def run_threads(count, work):
    """Runs the work in this many threads at once, and raises the first error."""
    with ThreadPoolExecutor(count) as threads:
        for done in [threads.submit(work, number) for number in range(count)]:
            done.result()


def wait_for(condition, what, seconds=LIMIT_S):
    """Waits until the condition is true, and returns its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.002)
    return value


def pairs(reply):
    """A reply of pairs as a dict: RESP3 sends a map, RESP2 a flat array."""
    return reply if reply is None or isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


async def until(condition, what):
    """Waits until the condition is true."""
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"not within {LIMIT_S} s: {what}"
        await asyncio.sleep(0.002)


def info(client, key):
    return pairs(client.execute_command("LOCK.INFO", key))


class Server(servers.Server):
    def connect(self, **options):
        return connect(self.port, **options)


class Workers(list):
    """Starts processes for a test. Their errors appear on its standard error."""

    def start(self, function, *args):
        self.append(fork.Process(target=function, args=args))
        self[-1].start()
        return self[-1]

    def join(self, seconds=100):
        end = time.monotonic() + seconds
        for worker in self:
            worker.join(max(0, end - time.monotonic()))
            assert worker.exitcode == 0, f"a worker's exit code: {worker.exitcode} (None: still at work)"

    def end(self):
        for worker in self:
            worker.kill()
            worker.join()
