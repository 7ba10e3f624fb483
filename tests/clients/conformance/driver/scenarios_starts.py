"""Work that begins at the message: what it costs, when it must not begin, and the claim behind it."""

import time

from program import Watch
from scenarios_waits import LONG, free, hold, queued
from servers import until
from stage import leases, scenario

CLAIM = 500  # ms: how long a grant lasts that nobody claims, where a scenario waits for its end


def waits(server, program, *keys, **options):
    """A task that waits for locks that the driver holds."""
    hold(server, *keys)
    task = program.acquire(*keys, **options)
    for key in keys:
        queued(server, key, 1)
    return task


def whole_lease(server, key="k"):
    """The lease is longer than that of a grant which nobody has claimed."""
    return (server.lock(key) or {}).get("lease-ms", 0) > 5000


@scenario()
def waited_for_lock_costs_no_claim(stage):
    server = stage.server()
    program = stage.program(server)
    task = waits(server, program, "k")
    before = server.calls("lock.acquire")
    watch = Watch()
    free(server, "k")
    task.acquired()
    watch.within(0, 200, "the lock")
    assert server.lock("k")["fence"] == task.fences[0] and not task.slot
    task.release()
    assert server.lock("k") is None
    assert (server.calls("lock.acquire") - before, server.calls("lock.leave")) == (0, 0)


@scenario()
def slot_comes_with_the_message(stage):
    server = stage.server()
    program = stage.program(server)
    for number in (1, 2):
        assert server("LOCK.ACQUIRE", "k", "OWNER", f"driver{number}", "PX", LONG, "LIMIT", 2)[4] == number
    task = program.acquire("k", limit=2)
    queued(server, "k", 1)
    free(server, "k", "driver2")
    assert task.acquired().slot == 2
    assert server.calls("lock.acquire") == 3
    task.release()


@scenario()
def claimed_behind_the_work(stage):
    server = stage.server()
    program = stage.program(server)
    for renew in (True, False):
        task = waits(server, program, "k", renew=renew, lease=30_000)
        free(server, "k")
        task.acquired()
        until(lambda: whole_lease(server), "the whole lease")
        assert server.lock("k")["fence"] == task.fences[0] and task.silent()
        task.release()


@scenario()
@leases(1000, 5000)
def held_longer_than_it_may_be_unclaimed(stage, claim):
    server = stage.server()
    server("CONFIG", "SET", "lock.claim", claim)
    program = stage.program(server)
    task = waits(server, program, "k")
    free(server, "k")
    task.acquired()
    until(lambda: task.events or whole_lease(server), "the whole lease")
    began = time.monotonic()
    until(lambda: task.events or time.monotonic() - began > 1.5 * claim / 1000, "what nobody claims would be over")
    assert task.silent() and server.lock("k")["fence"] == task.fences[0]
    task.release()


@scenario()
@leases(1000, 5000)
def lease_shorter_than_it_may_be_unclaimed(stage, lease):
    server = stage.server()
    program = stage.program(server)
    task = waits(server, program, "k", lease=lease)
    free(server, "k")
    task.acquired()
    renewals = server.calls("lock.extend")
    until(lambda: task.events or server.calls("lock.extend") >= renewals + 6, "two leases")
    assert task.silent() and server.lock("k")["fence"] == task.fences[0]


@scenario()
def late_message_starts_no_work(stage):
    """What the message tells of is over, and the lock is somebody else's."""
    server, proxy, program = stage.behind_proxy()
    server("CONFIG", "SET", "lock.claim", CLAIM)
    task = waits(server, program, "k")
    proxy.replies("hold", "subscription")
    free(server, "k")
    until(lambda: server.lock("k") is None, "the grant is over")
    hold(server, "k")
    server("CONFIG", "SET", "lock.claim", 5000)  # for the place that it takes next
    before = server.calls("lock.acquire")
    proxy.replies("pass", "subscription")
    until(lambda: server.calls("lock.acquire") > before, "it asks again")
    queued(server, "k", 1)
    assert task.silent()
    fence = server.lock("k")["fence"]
    free(server, "k")
    assert task.acquired().fences[0] > fence
    task.release()


@scenario(quick=False)
def message_of_an_earlier_grant_starts_no_work(stage):
    """It comes when the task has a new place already, and would be young enough for that."""
    server, proxy, program = stage.behind_proxy()
    server("CONFIG", "SET", "lock.claim", 3000)
    task = waits(server, program, "k")
    proxy.replies("hold", "subscription")
    free(server, "k")
    until(lambda: server.lock("k") is None, "the grant is over")
    hold(server, "k")
    queued(server, "k", 1)  # it has asked again
    later = waits(server, program, "l")
    free(server, "l")
    proxy.replies("pass", "subscription")
    later.acquired().release()  # the messages come in order
    assert task.silent()
    free(server, "k")
    task.acquired().release()


@scenario()
def frozen_between_message_and_work(stage):
    server = stage.server()
    server("CONFIG", "SET", "lock.claim", CLAIM)
    program, other = stage.program(server), stage.program(server)
    task = waits(server, program, "k")
    program.freeze()
    server("CONFIG", "SET", "lock.claim", 5000)  # for the other one: the place of the first has its own already
    waiting = other.acquire("k")
    queued(server, "k", 2)
    free(server, "k")
    waiting.acquired(seconds=60)
    before = server.calls("lock.acquire")
    program.thaw()
    until(lambda: server.calls("lock.acquire") > before, "it asks again")
    assert task.silent() and waiting.silent()
    waiting.release()
    task.acquired().release()


@scenario()
def unclaimed_grant_outlives_the_connections(stage):
    server, proxy, program = stage.behind_proxy()
    task = waits(server, program, "k")
    free(server, "k")
    task.acquired()
    proxy.cut()
    until(lambda: task.events or whole_lease(server), "the whole lease")
    assert task.silent() and server.lock("k")["fence"] == task.fences[0]
    task.release()
    assert server.lock("k") is None


@scenario()
def message_comes_after_it_was_given_up(stage):
    server, proxy, program = stage.behind_proxy()
    server("CONFIG", "SET", "lock.claim", 300_000)  # the grant does not end by itself
    task = waits(server, program, "k", lease=300_000)
    proxy.replies("hold", "subscription")
    free(server, "k")
    task.cancel()
    until(lambda: server.lock("k") is None, "it is given back, at once or soon after", seconds=20)
    proxy.replies("pass", "subscription")
    program.acquire("k").acquired().release()
    assert task.silent() and server.lock("k") is None


@scenario()
def claims_first_where_the_message_is_not_enough(stage):
    server = stage.server()
    program = stage.program(server)
    for keys, options in ((["k"], {"owner": "named"}), (["k"], {"session": True}), (["k", "l"], {})):
        task = waits(server, program, *keys, **options)
        command = "lock.acquire" if len(keys) == 1 else "lock.macquire"
        before = server.calls(command)
        for key in keys:
            free(server, key)
        task.acquired()
        assert server.calls(command) == before + 1, (keys, options)
        task.release()


@scenario()
def server_that_does_not_know_start(stage):
    server, proxy, program = stage.behind_proxy()
    proxy.rewrite("\r\nSTART\r\n", "\r\nTRATS\r\n")
    for _ in range(2):
        task = waits(server, program, "k")
        before = server.calls("lock.acquire")
        free(server, "k")
        task.acquired()
        assert server.calls("lock.acquire") == before + 1
        task.release()
        assert server.lock("k") is None
