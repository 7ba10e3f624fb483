"""Waits: order, time, giving up, many at once."""

import time

from program import Watch
from servers import until
from stage import scenario

LONG = 600_000


def judge_crowd(server, keys, rounds_each):
    """Each round found what the one before had left, and the fences rise."""
    for key in keys:
        assert int(server("GET", f"count:{key}")) == rounds_each, f"{key}: a round was lost, so two were in there at once"
        fences = [int(fence) for fence in server("LRANGE", f"fences:{key}", 0, -1)]
        assert fences == sorted(set(fences)), f"{key}: fences don't rise"
        assert server.lock(key) is None, f"{key} stays held"


def hold(server, *keys, owner="driver"):
    """The driver holds locks by itself; `free` gives one back."""
    for key in keys:
        assert server("LOCK.ACQUIRE", key, "OWNER", owner, "PX", LONG)


def free(server, key, owner="driver"):
    server("LOCK.RELEASE", key, owner)


def queued(server, key, count):
    until(lambda: server.waiters(key) == count, f"{count} wait for {key}")


@scenario()
def free_lock_costs_two_commands(stage):
    server = stage.server()
    program = stage.program(server)
    task = program.acquire("k").acquired()
    assert server.lock("k")["fence"] == task.fences[0]
    task.release()
    assert server.lock("k") is None
    calls = {name: server.calls(f"lock.{name}") for name in ("acquire", "release", "extend", "leave")}
    assert calls == {"acquire": 1, "release": 1, "extend": 0, "leave": 0}, calls


@scenario()
def first_come_first_served_among_processes(stage):
    server = stage.server()
    programs = [stage.program(server) for _ in range(3)]
    hold(server, "k")
    tasks = []
    for number in range(12):
        tasks.append(programs[number % 3].acquire("k"))
        queued(server, "k", number + 1)
    free(server, "k")
    for at, task in enumerate(tasks):
        task.acquired()
        assert all(other.silent() for other in tasks[at + 1:])
        task.release()


@scenario()
def wait_0_asks_once(stage):
    server = stage.server()
    program = stage.program(server)
    program.acquire("k").acquired().release()  # what it does at first takes longer
    hold(server, "k")
    watch = Watch()
    program.acquire("k", wait=0).next("not_acquired")
    watch.within(0, 50, "an answer at once")
    assert server.waiters("k") == 0
    assert server.calls("lock.acquire") == 3
    program.acquire("free", wait=0).acquired().release()


@scenario()
def wait_n_ends_after_n(stage):
    server = stage.server()
    program = stage.program(server)
    program.acquire("k").acquired().release()
    hold(server, "k")
    for wait in (1, 300, 1000):
        watch = Watch()
        program.acquire("k", wait=wait).next("not_acquired")
        watch.within(wait, wait + 50, f"a wait of {wait} ms")
    queued(server, "k", 0)


@scenario(quick=False)
def long_wait_ends_in_time_though_it_asks_again(stage):
    server = stage.server()
    program = stage.program(server)
    program.acquire("k").acquired().release()
    hold(server, "k")
    watch = Watch()
    program.acquire("k", wait=5500).next("not_acquired")
    watch.within(5500, 5550, "a wait of 5.5 s")
    assert server.calls("lock.acquire") >= 4
    queued(server, "k", 0)


@scenario(quick=False)
def wait_without_limit_goes_on(stage):
    server = stage.server()
    program = stage.program(server)
    hold(server, "k")
    task = program.acquire("k")
    until(lambda: server.calls("lock.acquire") >= 4, "it asks again, and again")
    assert task.silent()
    queued(server, "k", 1)
    free(server, "k")
    task.acquired().release()


@scenario()
def cancelled_wait_leaves_its_place(stage):
    server = stage.server()
    program = stage.program(server)
    hold(server, "k")
    first, second = program.acquire("k"), None
    queued(server, "k", 1)
    second = program.acquire("k")
    queued(server, "k", 2)
    first.cancel()
    assert server.waiters("k") == 1
    free(server, "k")
    second.acquired().release()
    assert server.lock("k") is None


@scenario()
def cancelled_while_being_granted(stage):
    """The message is held back: the grant is made, but not claimed. The next one gets it at once, not after `lock.claim`."""
    server = stage.server()
    proxy = stage.proxy(server)
    program, other = stage.program(proxy), stage.program(server)
    hold(server, "k")
    task = program.acquire("k")
    queued(server, "k", 1)
    waiting = other.acquire("k")
    queued(server, "k", 2)
    proxy.replies("swallow", "subscription")
    watch = Watch()
    free(server, "k")
    assert server.lock("k")["owner"] != "driver"
    task.cancel()
    waiting.acquired().release()
    watch.within(0, 1000, "the next one's turn")


@scenario()
def cancelled_while_the_answer_is_on_its_way(stage):
    """The grant is made, and its answer is held back. In the end nothing stays held."""
    server, proxy, program = stage.behind_proxy()
    program.acquire("k").acquired().release()
    for options in ({}, {"owner": "named"}):  # that owner may hold the lock elsewhere: only the answer tells what to release
        proxy.replies("hold", "commands")
        task = program.acquire("k", **options)
        until(lambda: server.lock("k"), "the grant")
        program.tell(do="cancel", task=task.name)
        program.acquire("k", owner="").next("refused")  # so it has read the one before as well
        proxy.replies("pass", "commands")
        task.next("cancelled")
        until(lambda: server.lock("k") is None, "the lock is free", seconds=5)


@scenario()
def cancelled_while_held(stage):
    server = stage.server()
    program = stage.program(server)
    task = program.acquire("k").acquired()
    task.cancel()
    assert server.lock("k") is None


@scenario()
def pool_of_one(stage):
    server = stage.server()
    program = stage.program(server, pool=1)
    program.crowd(50, ["a", "b", "c"], 3).next("done", seconds=60)
    for key in "abc":
        judge_crowd(server, [key], 50)


@scenario(quick=False, alone=True)
def thousand_tasks_on_one_lock(stage):
    server = stage.server()
    program = stage.program(server)
    begin = time.monotonic()
    program.crowd(1000, ["k"], 1).next("done", seconds=100)
    again = 1000 * int((time.monotonic() - begin) / 4)  # who waits asks again every 4 s
    judge_crowd(server, ["k"], 1000)
    assert server.calls("lock.acquire") < 3000 + again
    assert int(server.connection.info("stats")["total_connections_received"]) < 130


@scenario(quick=False, alone=True)
def hundred_tasks_over_twenty_locks(stage):
    server = stage.server()
    keys = [f"k{number}" for number in range(20)]
    stage.program(server).crowd(100, keys, 20).next("done", seconds=100)
    judge_crowd(server, keys, 100)


@scenario()
def processes_exclude_each_other(stage):
    server = stage.server()
    crowds = [stage.program(server).crowd(40, ["k"], 2) for _ in range(3)]
    for crowd in crowds:
        crowd.next("done", seconds=60)
    judge_crowd(server, ["k"], 240)
