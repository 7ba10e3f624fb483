"""Tests the cache of the documentation, which many processes read, and some rebuild."""

from collections import Counter

import pytest
import redis
from cache import Cache
from redislock import Locks

from support import info, run_threads


class ForReaders:
    """Replaces `Locks` to simulate a race: whoever asks for more than a shared lock gets it, and finds the cache torn."""

    def __init__(self, locks):
        self.locks = locks

    def lock(self, key, **options):
        assert options == {"shared": True}, "torn"
        return self.locks.lock(key, **options)


@pytest.mark.crowd
def test_a_cache_that_a_hundred_read_is_never_torn_though_five_rebuild_it(locks, tmp_path):
    """A maximum age of which the cache is always too old, and one of which it never is."""
    builds = Counter()

    def build(fence):
        builds[fence] += 1
        return {f"part{number}": [fence] * 100 for number in range(10)}

    def work(number):
        for _ in range(4):
            if number < 5:
                Cache(locks, tmp_path, build, max_age_s=-1).read()
            else:
                parts = Cache(ForReaders(locks), tmp_path, build).read()
                assert len(parts) == 10 and len({row for rows in parts.values() for row in rows}) == 1

    Cache(locks, tmp_path, build).read()
    run_threads(105, work)
    assert len(builds) == 21 and set(builds.values()) == {1}


def read_cache(url, folder, reads, counted):
    """A worker process with twenty threads."""
    client = redis.Redis.from_url(url)
    cache = Cache(Locks(client), folder, lambda fence: {"only": [client.incr(counted)]})
    run_threads(20, lambda _: [cache.read() for _ in range(reads)])


def test_a_cache_is_built_once_for_all_processes(server, workers, other, tmp_path):
    for _ in range(5):
        workers.start(read_cache, server.url, tmp_path, 5, "builds")
    workers.join()
    assert other.get("builds") == "1"
    assert info(other, f"cache:{tmp_path.name}") is None


def test_a_cache_that_a_late_writer_wrote_is_rebuilt(locks, tmp_path):
    fences = []

    def build(fence):
        fences.append(fence)
        return {"eur": [fence], "usd": [fence]}

    late, cache = Cache(locks, tmp_path, build), Cache(locks, tmp_path, build)
    assert cache.read() == {"eur": [fences[0]], "usd": [fences[0]]}
    # A late process writes under an old fence: all parts, one of two parts, or half a file.
    late._rebuild(fences[0] - 1)
    assert cache.read() == {"eur": [fences[-1]], "usd": [fences[-1]]} and len(fences) == 3
    usd = next(path for path in tmp_path.iterdir() if '"usd"' in path.read_text())
    usd.write_text(usd.read_text().replace(str(fences[-1]), str(fences[0])))
    assert cache.read()["usd"] == [fences[-1]] and len(fences) == 4
    usd.write_text('{"name": "usd"')
    assert cache.read()["eur"] == [fences[-1]] and len(fences) == 5
    assert cache.read()["eur"] == [fences[-1]] and len(fences) == 5


@pytest.mark.parametrize("later", [{"eur": [2]}, {}, {"eur": [2], "eur/usd": [2], "..": [2], "index": [2]}])
def test_a_cache_may_have_other_parts_each_time(locks, tmp_path, later):
    builds = Counter()

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
def test_a_cache_whose_writer_stopped_half_way_is_rebuilt(locks, tmp_path, before):
    whole = {"eur": [2], "usd": [2]}
    if before:
        Cache(locks, tmp_path, lambda _: before).read()
    builds = [{"eur": [1], "usd": [object()]}, whole]  # the first value can't be written as JSON
    with pytest.raises(TypeError):
        Cache(locks, tmp_path, lambda _: builds.pop(0), max_age_s=-1).read()
    assert Cache(locks, tmp_path, lambda _: builds.pop(0)).read() == whole
