"""Scenarios: the order of waits, time limits, giving up, and many waits at once."""

import time

from program import Watch
from servers import until
from stage import scenario

LONG = 600_000


def crowd(programs, tasks, keys, rounds, lock, seconds=60):
    """This many tasks of each program acquire the locks in turn, each task beginning with another lock. A task that is told that it holds a
    lock really does, and fences rise. `lock` returns the server's state of a key."""
    events, running, fences = [], {}, dict.fromkeys(keys, 0)

    def go_on(program, key, *later):
        task = program.acquire(key, events=events)
        running[task.name] = program, key, *later

    for program in programs:
        for number in range(tasks):
            go_on(program, *(keys[(number + turn) % len(keys)] for turn in range(rounds)))
    while running:
        event = programs[0].await_event(events, "the crowd goes on", seconds)
        program, key, *later = running[event["task"]]
        if event["event"] == "acquired":
            assert [lock(key)["fence"]] == event["fences"] and event["fences"] > [fences[key]], f"{key}, after {fences[key]}: {event}"
            [fences[key]] = event["fences"]
            program.tell(do="release", task=event["task"])
        else:
            assert event["event"] == "released", event
            del running[event["task"]]
            if later:
                go_on(program, *later)
    assert not any(map(lock, keys)), "one stays held"


def hold(server, key):
    """Makes the driver itself hold the lock, until `free`."""
    assert server("LOCK.ACQUIRE", key, "OWNER", "driver", "PX", LONG)


def free(server, key):
    server("LOCK.RELEASE", key, "driver")


def queued(server, key, count):
    until(lambda: server.waiters(key) == count, f"{count} wait for {key}")


def waits(server, program, key, **options):
    """Makes a task wait for a lock that the driver holds."""
    hold(server, key)
    task = program.acquire(key, **options)
    queued(server, key, 1)
    return task


@scenario()
def wait_n_ends_after_n(stage):
    server, program = stage.both()
    program.acquire("k").acquired().release()  # connects first, which takes longer
    hold(server, "k")
    for wait in (0, 1, 300, 1000):
        watch = Watch()
        program.acquire("k", wait=wait).next("not_acquired")
        watch.within(wait, wait + 50, f"a wait of {wait} ms")
        assert wait or server.calls("lock.acquire") == 3, "it asks once"
    queued(server, "k", 0)
    program.acquire("free", wait=0).acquired().release()


@scenario()
def pool_of_one(stage):
    server = stage.server()
    program = stage.program(server, pool=1)
    crowd([program], 50, "abc", 3, server.lock)


@scenario(quick=False, alone=True)
def thousand_tasks_on_one_lock(stage):
    server, program = stage.both()
    begin = time.monotonic()
    crowd([program], 1000, "k", 1, server.lock)
    again = 1000 * int((time.monotonic() - begin) / 4)  # waiting tasks ask again every 4 s
    assert server.calls("lock.acquire") < 3000 + again
    assert int(server.connection.info("stats")["total_connections_received"]) < 130


@scenario()
def processes_exclude_each_other(stage):
    server = stage.server()
    crowd([stage.program(server) for _ in range(3)], 40, "k", 2, server.lock)
