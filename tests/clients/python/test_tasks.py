"""Tests the documentation's tasks, which take locks one after the other, so that many of them can deadlock."""

import random
import threading
import time

import pytest
import redis
from tasks import Tasks

from support import run_threads

KEYS = ["a", "b", "c", "d"]


@pytest.fixture
def tasks(locks):
    return Tasks(locks, wait=60)


@pytest.mark.crowd
def test_two_hundred_tasks_cross_and_all_are_done(tasks, other):
    inside, done = dict.fromkeys(KEYS, 0), []

    def task(number):
        chance = random.Random(number)

        def work(take):
            mine = []
            try:
                for key in chance.sample(KEYS, chance.randint(2, 3)):
                    take(key)
                    mine.append(key)
                    inside[key] += 1
                    assert inside[key] == 1, f"two hold {key}"
                    time.sleep(0.001)  # give the others time to take locks
            finally:
                for key in mine:
                    inside[key] -= 1
            done.append(number)

        for _ in range(4):
            tasks.run(work)

    run_threads(50, task)
    assert sorted(done) == sorted(list(range(50)) * 4)
    # A deadlock that is not detected would last until a wait times out.
    assert other.info("lock")["lock_deadlocks"] > 0 and other.info("lock")["lock_timeouts"] == 0
    assert other.keys() == []


def test_one_of_two_that_cross_is_told_and_the_other_goes_on(tasks, other):
    both, times = threading.Barrier(2), [0, 0]

    def task(number):
        def work(take):
            times[number] += 1
            take(KEYS[number])
            if times == [1, 1] or times[number] == 1:
                both.wait(60)
            take(KEYS[1 - number])

        tasks.run(work)

    run_threads(2, task)
    assert sorted(times) == [1, 2]
    assert other.info("lock")["lock_deadlocks"] == 1


def test_another_error_is_passed_on_and_nothing_stays_held(tasks, other):
    other.set("text", "no lock")

    def work(take):
        take("a")
        take("text")

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        tasks.run(work)
    assert other.execute_command("LOCK.INFO", "a") is None

    def fails(take):
        take("a")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tasks.run(fails)
    assert other.execute_command("LOCK.INFO", "a") is None


def test_a_wait_that_ends_is_an_error(locks, other):
    other.execute_command("LOCK.ACQUIRE", "b", "OWNER", "someone", "PX", 600_000)
    with locks.lock("c"):  # connects first, which may take longer than the wait
        pass
    tasks = Tasks(locks, wait=0.05)

    def work(take):
        take("a")
        take("b")

    with pytest.raises(TimeoutError, match="b is not free"):
        tasks.run(work)
    assert other.execute_command("LOCK.INFO", "a") is None


def test_a_lock_that_is_lost_meanwhile_is_told(tasks, other):
    def work(take):
        take("a")
        take("b")
        other.execute_command("LOCK.BREAK", "a")

    with pytest.raises(RuntimeError, match="lost meanwhile: \\['a'\\]"):
        tasks.run(work)
    assert other.execute_command("LOCK.INFO", "b") is None


def test_a_lock_that_is_taken_twice_is_given_back(tasks, other):
    fences = tasks.run(lambda take: [take("a"), take("a")])
    assert fences[0] == fences[1]
    assert other.execute_command("LOCK.INFO", "a") is None
