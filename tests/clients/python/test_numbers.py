"""Numbers in a queue: each is the highest so far plus one, read and written in two statements without a transaction."""

import sqlite3
import time
from contextlib import closing

import pytest

from support import connect, fork, held

PROCESSES = 8


def open_table(path):
    db = sqlite3.connect(path, isolation_level=None, timeout=30)
    db.execute("PRAGMA synchronous = OFF")
    return closing(db)


def hand_out(port, path, count, gate):
    client = connect(port)
    with open_table(path) as db:
        gate.wait()
        for _ in range(count):
            with held(client, "numbers"):
                (highest,) = db.execute("SELECT coalesce(max(number), 0) FROM numbers").fetchone()
                time.sleep(0.0005)  # the others' chance
                db.execute("INSERT INTO numbers VALUES (?)", (highest + 1,))


def hand_out_all(server, workers, path, count):
    """The numbers that all processes together handed out, sorted."""
    with open_table(path) as db:
        db.execute("CREATE TABLE numbers (number INTEGER NOT NULL)")
        gate = fork.Barrier(PROCESSES, timeout=10)
        for _ in range(PROCESSES):
            workers.start(hand_out, server.port, path, count // PROCESSES, gate)
        workers.join()
        return [number for (number,) in db.execute("SELECT number FROM numbers ORDER BY number")]


@pytest.mark.crowd
def test_none_twice_and_none_missing(server, workers, tmp_path):
    assert hand_out_all(server, workers, tmp_path / "numbers.db", 1000) == list(range(1, 1001))


def test_control_without_the_lock_numbers_come_twice(server, workers, tmp_path, monkeypatch):
    monkeypatch.setenv("REDISLOCK_TEST_WITHOUT_LOCK", "1")
    numbers = hand_out_all(server, workers, tmp_path / "numbers.db", 200)
    assert len(numbers) == 200
    assert len(set(numbers)) < 200
