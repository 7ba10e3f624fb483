"""Scenarios: leases are renewed or lost, and the holder is told in time."""

import time

from program import Watch
from resp import Connection, ReplyError
from scenarios_waits import LONG, free, hold, queued
from servers import until
from stage import scenario

TOLD = 100  # ms: the package's own clock notices the end, so nothing has to come from the server


def passes(seconds, *tasks):
    """Waits for this long. Fails if the tasks have an event meanwhile."""
    begin = time.monotonic()
    until(lambda: any(task.events for task in tasks) or time.monotonic() - begin > seconds, f"{seconds} s")
    assert all(task.silent() for task in tasks)


@scenario(leases=(600, 3000, 10_000))
def renewal_goes_on_while_others_wait(stage, lease):
    server, program = stage.both()
    task = program.acquire("k", lease=lease).acquired()
    others = [program.acquire("k") for _ in range(20)]
    until(lambda: task.events or server.calls("lock.extend") >= 6, "two leases")
    assert task.silent() and server.lock("k")["fence"] == task.fences[0] and all(other.silent() for other in others)


@scenario()
def age_that_the_server_allows_is_named(stage):
    server = stage.server()
    server("CONFIG", "SET", "lock.max-hold", 1500)
    program = stage.program(server)
    for options in [dict(), dict(lease=900)]:
        before = server.calls("lock.extend")
        lost = program.acquire("k", **options).acquired().next("lost")
        assert "maximum age" in lost["reason"], lost
        assert server.calls("lock.extend") <= before + 9, "renewed on, though no renewal makes its lease longer"


@scenario()
def close_releases_what_is_held(stage):
    server, program = stage.both()
    tasks = [program.acquire(key).acquired() for key in "abc"]
    program.acquire("s", session=True).acquired()
    hold(server, "w")
    program.acquire("w")
    queued(server, "w", 1)
    program.close()
    assert [server.lock(key) for key in "abcs"] == [None] * 4 and tasks
    assert server.waiters("w") == 0


@scenario(quick=False, leases=(600, 3000))
def wait_longer_than_the_lease(stage, lease):
    server = stage.server()
    hold(server, "k")
    task = stage.program(server).acquire("k", lease=lease)
    queued(server, "k", 1)
    time.sleep(1.5 * lease / 1000)
    free(server, "k")
    task.acquired()
    passes(1.5 * lease / 1000, task)
    assert server.lock("k")["fence"] == task.fences[0]
    task.release()


@scenario()
def refused_for_a_while(stage):
    """A primary without its replicas, and one that runs a long script, refuse commands. No wait or release may be given up for this."""
    server, proxy, program = stage.behind_proxy()
    server("CONFIG", "SET", "busy-reply-threshold", 1)

    def replicas(needed):
        server("CONFIG", "SET", "min-replicas-to-write", needed)

    def refuses(code, *words):
        try:
            server(*words)
        except ReplyError as error:
            return str(error).startswith(code)

    def script():
        asking = Connection(server.port)
        asking.socket.sendall(b'EVAL "while true do end" 0\r\n')
        until(lambda: refuses("BUSY", "PING"), "the script runs")
        return asking

    for code, begin, end in ((b"-NOREPLICAS", lambda: replicas(1), lambda: replicas(0)),
                             (b"-BUSY", script, lambda: until(lambda: refuses("NOTBUSY", "SCRIPT", "KILL"), "the script ends"))):
        def refused():
            count = sum(said.startswith(code) for said in proxy.refusals)
            until(lambda: sum(said.startswith(code) for said in proxy.refusals) > count + 1, f"{code}, twice")

        task = program.acquire("k").acquired()
        begin()
        program.tell(do="release", task=task.name)
        refused()
        end()
        task.next("released")
        until(lambda: server.lock("k") is None, "the release")
        begin()
        task = program.acquire("k", wait=LONG)
        refused()
        end()
        task.acquired().release()


@scenario()
def shortened_by_hand_and_nothing_answers(stage):
    """The server may have set the shorter lease, so no holder may rely on a longer one, nor another task that shares the grant. A package that
    reports losses by itself reports this one although the extension has no answer yet: the answer would be of no use."""
    server, proxy, program = stage.behind_proxy()
    task, other = [program.acquire("k", owner="alice", renew=False, lease=60_000).acquired() for _ in range(2)]
    proxy.swallow()
    watch = Watch()
    program.tell(do="extend", task=task.name, lease=700)
    until(lambda: server.lock("k") is None, "the lease is over")
    other.next("lost", seconds=10)
    if task.next("lost", "error", seconds=10)["event"] == "error":
        task.next("lost", seconds=10)
    watch.within(700, 700 + TOLD + 1000, "the loss")


@scenario()
def loss_that_the_release_finds(stage):
    """If the loss was not noticed before, the answer to the release reports it, and only once."""
    server, proxy, program = stage.behind_proxy()
    one, several = program.acquire("k", lease=60_000).acquired(), program.acquire("a", "b", lease=60_000).acquired()
    proxy.swallow("subscription")
    for key, task in (("k", one), ("b", several)):
        server("LOCK.BREAK", key)
        task.release("lost")
    assert server.lock("a") is None
    passes(0.2, one, several)
