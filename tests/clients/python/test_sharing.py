"""Readers and writers, n at a time: the programs of the documentation, and locks with SHARED and LIMIT, many at once."""

import asyncio
import contextlib
import os
import random
import select
import signal
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import redis.asyncio
import shards
from cache import Cache
from redis.exceptions import RedisError, ResponseError
from redislock import Locks
from redislock.asyncio import Locks as AsyncLocks

from support import info, run_threads, wait_for

READERS, WRITERS, WORKERS, LIMIT = 100, 5, 200, 10


class Book:
    """Whoever reads while somebody writes sees it: by a count of who is inside, and by a file that is written in two steps."""

    def __init__(self, path):
        self.path = path
        self.readers = self.writers = self.written = 0
        self.mutex = threading.Lock()
        self.write_page(0, lambda: None)

    def write_page(self, number, pause):
        with open(self.path, "w") as file:
            file.write(f"{number}\n")
            file.flush()
            pause()
            file.write(f"{number}\n")

    @contextlib.contextmanager
    def reading(self):
        with self.mutex:
            assert self.writers == 0, "a reader beside a writer"
            self.readers += 1
        yield
        one, other = self.path.read_text().split()
        assert one == other
        with self.mutex:
            assert self.writers == 0, "a writer beside a reader"
            self.readers -= 1

    @contextlib.contextmanager
    def writing(self):
        with self.mutex:
            assert (self.readers, self.writers) == (0, 0), "a writer beside somebody"
            self.writers += 1
        self.written += 1
        yield
        with self.mutex:
            assert (self.readers, self.writers) == (0, 1), "somebody beside a writer"
            self.writers -= 1


class Room:
    """How many are inside, and how many were at most."""

    def __init__(self):
        self.inside = self.most = self.served = 0
        self.mutex = threading.Lock()

    def enter(self):
        with self.mutex:
            self.inside += 1
            self.served += 1
            self.most = max(self.most, self.inside)

    def leave(self):
        with self.mutex:
            self.inside -= 1


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path / "book")


@pytest.fixture
def client(server):
    """With the default pool."""
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def other(server):
    with server.connect() as other:
        yield other


def test_a_hundred_threads_read_and_five_write(server, client, other, book):
    locks = Locks(client)

    def work(number):
        for round in range(4):
            if number < WRITERS:
                with locks.lock("book"), book.writing():
                    book.write_page(number * 100 + round, lambda: time.sleep(0.001))
            else:
                with locks.lock("book", shared=True), book.reading():
                    time.sleep(0.001)

    def meet(number):
        with locks.lock("book", shared=True), book.reading():
            all_inside.wait()

    run_threads(WRITERS + READERS, work)
    assert book.written == 4 * WRITERS
    all_inside = threading.Barrier(READERS, timeout=30)
    run_threads(READERS, meet)
    assert info(other, "book") is None


def test_a_hundred_tasks_read_and_five_write(server, other, book):
    async def work(locks, number):
        for round in range(4):
            if number < WRITERS:
                async with locks.lock("book"):
                    with book.writing():
                        book.write_page(number * 100 + round, lambda: None)
                        await asyncio.sleep(0.001)
            else:
                async with locks.lock("book", shared=True):
                    with book.reading():
                        await asyncio.sleep(0.001)

    async def meet(locks, all_inside):
        async with locks.lock("book", shared=True):
            with book.reading():
                await asyncio.wait_for(all_inside.wait(), 30)

    async def main():
        async with redis.asyncio.Redis.from_url(server.url) as client, AsyncLocks(client) as locks:
            await asyncio.gather(*(work(locks, number) for number in range(WRITERS + READERS)))
            assert book.written == 4 * WRITERS
            all_inside = asyncio.Barrier(READERS)
            await asyncio.gather(*(meet(locks, all_inside) for _ in range(READERS)))

    asyncio.run(main())
    assert info(other, "book") is None


def lose_permits(server, count):
    """Connections that took permits by a session, and are killed while others wait."""
    lost = [server.connect(single_connection_client=True) for _ in range(count)]
    for number, client in enumerate(lost):
        words = ["OWNER", f"lost:{number}", "LIMIT", LIMIT, "PX", 60_000, "BLOCK", 0, "SESSION"]
        assert client.execute_command("LOCK.ACQUIRE", "service", *words)
    return [client.client_id() for client in lost], lost


def test_two_hundred_threads_share_ten_permits(server, client, other):
    locks, room = Locks(client), Room()
    clients, lost = lose_permits(server, 5)
    threading.Timer(0.3, lambda: [other.client_kill_filter(_id=number) for number in clients]).start()

    def work(number):
        with locks.lock("service", limit=LIMIT):
            room.enter()
            time.sleep(0.02)
            room.leave()

    run_threads(WORKERS, work)
    assert room.served == WORKERS
    assert room.most <= LIMIT
    wait_for(lambda: info(other, "service") is None, "the last session has ended")
    del lost


def test_two_hundred_tasks_share_ten_permits(server, other):
    room = Room()
    clients, lost = lose_permits(server, 5)

    async def main():
        async with redis.asyncio.Redis.from_url(server.url) as client, AsyncLocks(client) as locks:

            async def work(number):
                async with locks.lock("service", limit=LIMIT):
                    room.enter()
                    await asyncio.sleep(0.02)
                    room.leave()
                if number == 20:
                    assert [other.client_kill_filter(_id=lost) for lost in clients] == [1] * 5

            await asyncio.gather(*map(work, range(WORKERS)))

    asyncio.run(main())
    assert room.served == WORKERS
    assert room.most == LIMIT
    wait_for(lambda: info(other, "service") is None, "the last session has ended")
    del lost


# The cache.


class ForReaders:
    """Locks for those who find the cache as it should be: it is torn for whoever takes more than a shared lock."""

    def __init__(self, locks):
        self.locks = locks

    def lock(self, key, **options):
        assert options == {"shared": True}, "torn"
        return self.locks.lock(key, **options)


@pytest.mark.crowd
def test_a_cache_that_a_hundred_read_is_never_torn_though_five_rebuild_it(server, client, tmp_path):
    """It is always too old for five, and never for a hundred."""
    locks, builds = Locks(client), Counter()

    def build(fence):
        builds[fence] += 1
        return {f"part{number}": [fence] * 100 for number in range(10)}

    def work(number):
        for _ in range(4):
            if number < WRITERS:
                Cache(locks, tmp_path, build, max_age_s=-1).read()
            else:
                parts = Cache(ForReaders(locks), tmp_path, build).read()
                assert len(parts) == 10 and len({row for rows in parts.values() for row in rows}) == 1

    Cache(locks, tmp_path, build).read()
    run_threads(WRITERS + READERS, work)
    assert len(builds) == 1 + 4 * WRITERS and set(builds.values()) == {1}


def read_cache(url, folder, reads, counted):
    """A process of its own, with twenty threads."""
    client = redis.Redis.from_url(url)
    cache = Cache(Locks(client), folder, lambda fence: {"only": [client.incr(counted)]})
    run_threads(20, lambda _: [cache.read() for _ in range(reads)])


def test_a_cache_is_built_once_for_all_processes(server, workers, other, tmp_path):
    for _ in range(5):
        workers.start(read_cache, server.url, tmp_path, 5, "builds")
    workers.join()
    assert other.get("builds") == "1"
    assert info(other, f"cache:{tmp_path.name}") is None


def test_a_cache_that_a_late_writer_wrote_is_rebuilt(server, client, tmp_path):
    locks, fences = Locks(client), []

    def build(fence):
        fences.append(fence)
        return {"eur": [fence], "usd": [fence]}

    late, cache = Cache(locks, tmp_path, build), Cache(locks, tmp_path, build)
    assert cache.read() == {"eur": [fences[0]], "usd": [fences[0]]}
    # It writes all, or one part of two, or half a file, under a fence of before.
    late._rebuild(fences[0] - 1)
    assert cache.read() == {"eur": [fences[-1]], "usd": [fences[-1]]} and len(fences) == 3
    usd = next(path for path in tmp_path.iterdir() if '"usd"' in path.read_text())
    usd.write_text(usd.read_text().replace(str(fences[-1]), str(fences[0])))
    assert cache.read()["usd"] == [fences[-1]] and len(fences) == 4
    usd.write_text('{"name": "usd"')
    assert cache.read()["eur"] == [fences[-1]] and len(fences) == 5
    assert cache.read()["eur"] == [fences[-1]] and len(fences) == 5


@pytest.mark.parametrize("later", [{"eur": [2]}, {}, {"eur": [2], "eur/usd": [2], "..": [2], "index": [2]}])
def test_a_cache_may_have_other_parts_each_time(server, client, tmp_path, later):
    locks, builds = Locks(client), Counter()

    def build(fence):
        builds[fence] += 1
        return later if len(builds) > 1 else {"eur": [1], "usd": [1]}

    cache = Cache(locks, tmp_path, build)
    assert cache.read() == {"eur": [1], "usd": [1]}
    Cache(locks, tmp_path, build, max_age_s=-1).read()
    assert all(cache.read() == later for _ in range(10))
    assert Cache(locks, tmp_path, build).read() == later
    assert len(builds) == 2


@pytest.mark.parametrize("before", [None, {"eur": [0]}, {"eur": [0], "usd": [0], "yen": [0]}])
def test_a_cache_whose_writer_stopped_half_way_is_rebuilt(server, client, tmp_path, before):
    locks, whole = Locks(client), {"eur": [2], "usd": [2]}
    if before:
        Cache(locks, tmp_path, lambda _: before).read()
    builds = [{"eur": [1], "usd": [object()]}, whole]  # the first can't be written
    with pytest.raises(TypeError):
        Cache(locks, tmp_path, lambda _: builds.pop(0), max_age_s=-1).read()
    assert Cache(locks, tmp_path, lambda _: builds.pop(0)).read() == whole


# The workers.


class Service:
    """Counts who is using it: each says on a connection when it begins and ends. Kills some in the midst of it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=WORKERS)
        self.port = self.listener.getsockname()[1]
        self.using, self.most, self.calls, self.killed, self.twice = {}, 0, 0, 0, []
        self.open = True
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        with self.listener:
            clients, unanswered = [], []
            while self.open:
                for ready in select.select([self.listener, *clients], [], [], 0.05)[0]:
                    if ready is self.listener:
                        clients.append(self.listener.accept()[0])
                    elif word := self.word(ready):
                        self.begin(ready, *map(int, word.split())) if word != b"0" else self.using.pop(ready)
                        unanswered.append(ready)
                        # The first ones stay until all numbers are in use at once.
                        while unanswered and self.most >= LIMIT:
                            with contextlib.suppress(OSError):
                                unanswered.pop().sendall(b"ok")
                    else:
                        clients.remove(ready)
                        self.using.pop(ready, None)
                        ready.close()
            for client in clients:
                client.close()

    def begin(self, client, process, number):
        self.twice += [number] if number in self.using.values() else []
        self.using[client] = number
        self.calls += 1
        self.most = max(self.most, len(self.using))
        if process % 8 == 0 and self.killed < 20:
            self.killed += 1
            os.kill(process, signal.SIGKILL)
            # It does nothing any more, whichever of its connections the system closes first.
            del self.using[client]

    @staticmethod
    def word(client):
        with contextlib.suppress(ConnectionError):
            return client.recv(16)

    def end(self):
        self.open = False
        self.thread.join()


def call_service(url, port, calls):
    """A worker: so many calls, each with a number."""
    with socket.create_connection(("127.0.0.1", port)) as service, redis.Redis.from_url(url) as client, Locks(client) as locks:
        for _ in range(calls):
            with shards.shard(locks, client) as held:
                service.sendall(b"%d %d" % (os.getpid(), held.slot))
                assert service.recv(16) == b"ok"
                time.sleep(random.uniform(0, 0.02))
                service.sendall(b"0")
                assert service.recv(16) == b"ok"


@pytest.mark.crowd
def test_two_hundred_workers_share_ten_numbers_and_some_are_killed(server, workers, other, monkeypatch):
    monkeypatch.setattr(shards, "SHARDS", LIMIT)
    service = Service()
    try:
        for _ in range(WORKERS):
            workers.start(call_service, server.url, service.port, 3)
        for worker in workers:
            worker.join(100)
        # The last numbers of those that were killed end with their connections, long before their leases.
        wait_for(lambda: info(other, "shards") is None, "all numbers are given back", 5)
    finally:
        service.end()
    codes = Counter(worker.exitcode for worker in workers)
    assert codes == {0: WORKERS - service.killed, -signal.SIGKILL: service.killed}
    assert service.killed >= 5
    assert service.most == LIMIT
    assert not service.twice
    assert service.calls >= 3 * codes[0]


def fork_with_a_permit(url, closes):
    """A worker with a permit, and a child that says its number."""
    connection, other = redis.Redis.from_url(url, single_connection_client=True), redis.Redis.from_url(url)
    assert connection.execute_command("LOCK.ACQUIRE", "service", "LIMIT", LIMIT, "SESSION")
    if not os.fork():
        if closes:
            connection.connection.disconnect()
        other.set("child", os.getpid())
    time.sleep(100)


@pytest.mark.parametrize("closes", [True, False])
def test_a_permit_lives_on_in_a_child_unless_that_one_closes_the_connection(server, workers, other, closes):
    worker = workers.start(fork_with_a_permit, server.url, closes)
    child = int(wait_for(lambda: other.get("child"), "the child is there"))

    def given_back():
        wait_for(lambda: info(other, "service") is None, "the permit is back", 5)

    try:
        worker.kill()
        worker.join()
        if closes:
            given_back()
        else:
            time.sleep(0.5)
            assert info(other, "service")["session"] == 1
    finally:
        os.kill(child, signal.SIGKILL)
    given_back()


# What the page says of upgrades and of limits that change.


def test_an_upgrade_in_place_and_the_deadlock_of_two(client, other):
    def ask(owner, *words):
        return client.execute_command("LOCK.ACQUIRE", "book", "OWNER", owner, *words)

    _, fence, *_ = ask("alice", "SHARED")
    assert ask("alice")[1:3] == [fence, 2]  # alone: in place
    assert ask("bob", "SHARED") is None
    assert info(other, "book")["mode"] == "exclusive"
    assert client.execute_command("LOCK.RELEASE", "book", "alice", "ALL") == 0

    _, fence, *_ = ask("alice", "SHARED")
    ask("bob", "SHARED")
    assert ask("alice") is None
    with ThreadPoolExecutor(1) as thread:
        upgrade = thread.submit(ask, "alice", "BLOCK", 30_000)
        wait_for(lambda: info(other, "book")["waiters"] == 1, "alice waits")
        assert ask("bob") is None
        with pytest.raises(ResponseError, match="^DEADLOCK "):
            ask("bob", "BLOCK", 30_000)
        assert client.execute_command("LOCK.RELEASE", "book", "bob") == 0
        assert upgrade.result(30)[1:3] == [fence, 2]


def test_a_limit_that_changes(client, other):
    def ask(owner, limit):
        return client.execute_command("LOCK.ACQUIRE", "service", "OWNER", owner, "LIMIT", limit) is not None

    assert all(ask(f"old:{number}", 2) for number in range(2))
    assert not ask("new", 4)  # as long as an old one holds it
    assert (info(other, "service")["limit"], info(other, "service")["holders"]) == (2, 2)
    client.execute_command("LOCK.RELEASE", "service", "old:0")
    client.execute_command("LOCK.RELEASE", "service", "old:1")
    assert all(ask(f"new:{number}", 4) for number in range(4))
    assert not ask("new:4", 4) and not ask("old", 2)
    for number in range(3):
        client.execute_command("LOCK.RELEASE", "service", f"new:{number}")
    assert ask("old", 2)
    assert not ask("new", 4)


def test_one_name_is_one_holder(client, other):
    for holds in range(1, 11):
        grant = client.execute_command("LOCK.ACQUIRE", "service", "OWNER", "process", "LIMIT", 10)
        assert grant[2] == holds
    assert info(other, "service")["holders"] == 1
    with contextlib.suppress(RedisError):
        client.execute_command("LOCK.RELEASE", "service", "process", "ALL")


def test_who_comes_behind_a_writer_waits(client, other):
    """Though there is room beside those who read: else the writer might never come in. Then all readers come in together."""

    def ask(owner, *words):
        return client.execute_command("LOCK.ACQUIRE", "book", "OWNER", owner, "BLOCK", 30_000, *words)

    ask("first", "SHARED")
    with ThreadPoolExecutor(4) as threads:
        writer = threads.submit(ask, "writer")
        wait_for(lambda: info(other, "book")["waiters"] == 1, "the writer waits")
        readers = [threads.submit(ask, f"reader:{number}", "SHARED") for number in range(3)]
        wait_for(lambda: info(other, "book")["waiters"] == 4, "the readers wait behind it")
        assert client.execute_command("LOCK.ACQUIRE", "book", "OWNER", "hasty", "SHARED") is None
        assert ask("first", "SHARED")[2] == 2  # what it holds already it gets
        client.execute_command("LOCK.RELEASE", "book", "first", "ALL")
        fence = writer.result(30)[1]
        assert info(other, "book")["holders"] == 1
        client.execute_command("LOCK.RELEASE", "book", "writer")
        assert all(reader.result(30)[1] > fence for reader in readers)
        assert info(other, "book")["holders"] == 3


def test_no_more_hold_it_than_the_server_allows(client, other):
    other.config_set("lock.max-holders", 3)

    def ask(owner, *words):
        return client.execute_command("LOCK.ACQUIRE", "book", "OWNER", owner, *words)

    assert all(ask(f"reader:{number}", "SHARED") for number in range(3))
    assert ask("late", "SHARED") is None
    with pytest.raises(ResponseError, match="LIMIT must be between 1 and 3"):
        ask("late", "LIMIT", 4)
    with ThreadPoolExecutor(1) as thread:
        late = thread.submit(ask, "late", "SHARED", "BLOCK", 30_000)
        wait_for(lambda: info(other, "book")["waiters"] == 1, "it waits")
        client.execute_command("LOCK.RELEASE", "book", "reader:1")
        assert late.result(30)


def test_who_stood_behind_one_that_gave_up_comes_in(client, other):
    """The writer in front kept the reader out, though there is room beside those who read."""

    def ask(owner, *words):
        return client.execute_command("LOCK.ACQUIRE", "book", "OWNER", owner, *words)

    ask("first", "SHARED", "PX", 60_000)
    with ThreadPoolExecutor(2) as threads:
        writer = threads.submit(ask, "writer", "BLOCK", 3000)
        wait_for(lambda: info(other, "book")["waiters"] == 1, "the writer waits")
        reader = threads.submit(ask, "reader", "SHARED", "BLOCK", 50_000)
        assert writer.result(30) is None
        assert reader.result(30)
