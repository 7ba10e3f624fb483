"""Leases: renewed, lost, and how soon the holder is told."""

import math
import re
import time

from program import Watch
from resp import Connection, ReplyError
from scenarios_waits import LONG, free, hold, queued
from servers import until
from stage import leases, scenario

TOLD = 100  # ms: the package's own clock tells of the end, so nothing has to come from the server


@scenario(quick=False)
@leases(1000, 5000)
def renewed_over_ten_leases(stage, lease):
    server = stage.server()
    program = stage.program(server)
    begin = time.monotonic()
    task = program.acquire("k", lease=lease).acquired()
    until(lambda: task.events or time.monotonic() - begin > 10.5 * lease / 1000, "ten leases", seconds=100)
    assert task.silent() and server.lock("k")["fence"] == task.fences[0]
    renewals, passed = server.calls("lock.extend"), (time.monotonic() - begin) * 1000 / lease
    # With fewer than one a lease the lock would be gone. None comes sooner than a third of a lease after the one before.
    assert 10 <= renewals <= 3 * passed + 1, renewals
    task.release()


@scenario()
@leases(600, 3000, 10_000)
def renewal_goes_on_while_others_wait(stage, lease):
    server = stage.server()
    program = stage.program(server)
    task = program.acquire("k", lease=lease).acquired()
    others = [program.acquire("k") for _ in range(20)]
    until(lambda: task.events or server.calls("lock.extend") >= 6, "two leases")
    assert task.silent() and server.lock("k")["fence"] == task.fences[0] and all(other.silent() for other in others)


@scenario()
def broken_is_told_at_once(stage):
    server = stage.server()
    task = stage.program(server).acquire("k").acquired()
    watch = Watch()
    server("LOCK.BREAK", "k")
    task.next("lost")
    watch.within(0, 50, "the loss")


@scenario()
def loss_of_a_waited_for_lock_is_told_at_once(stage):
    server = stage.server()
    hold(server, "k")
    task = stage.program(server).acquire("k")
    queued(server, "k", 1)
    free(server, "k")
    task.acquired()
    watch = Watch()
    server("DEL", "k")
    task.next("lost")
    watch.within(0, 50, "the loss")


@scenario()
def unrenewed_lock_ends_with_its_lease(stage):
    server = stage.server()
    program = stage.program(server)
    asked = Watch()
    task = program.acquire("k", renew=False, lease=700).acquired()
    held = Watch()
    task.next("lost")
    asked.within(700, math.inf, "the lease")
    held.within(0, 700 + TOLD, "the lease")
    assert server.calls("lock.extend") == 0


@scenario()
def extended_by_hand(stage):
    server = stage.server()
    task = stage.program(server).acquire("k", renew=False, lease=1000).acquired()
    assert task.extend(60_000)["lease"] == 60_000
    assert server("PTTL", "k") > 50_000
    server("LOCK.BREAK", "k")
    task.next("lost")


@scenario()
def extended_by_less_than_asked(stage):
    server = stage.server()
    task = stage.program(server).acquire("k", lease=10_000, max_hold=20_000).acquired()
    assert 10_000 < task.extend(60_000)["lease"] <= 20_000
    task.release()


@scenario()
def refused_release_is_told(stage):
    server = stage.server()
    program = stage.program(server)
    task = program.acquire("k", lease=60_000).acquired()
    server("ACL", "SETUSER", "default", "-lock.release")
    assert "no permissions" in task.release("error")["message"].lower()
    assert server.lock("k")


@scenario()
def release_of_a_key_that_is_something_else(stage):
    server, proxy, program = stage.behind_proxy()
    task = program.acquire("k", lease=60_000).acquired()
    proxy.replies("swallow", "subscription")
    server("SET", "k", "text")
    task.release("lost", "error")


@scenario()
def renewal_of_a_key_that_is_something_else(stage):
    server, proxy, program = stage.behind_proxy()
    task = program.acquire("k", lease=3000).acquired()
    proxy.replies("swallow", "subscription")
    watch = Watch()
    server("SET", "k", "text")
    task.next("lost", seconds=10)
    watch.within(0, 1000 + TOLD, "the loss, by the first renewal")


@scenario()
def renewal_that_fails_is_sent_again_after_a_tenth_of_the_lease(stage):
    server = stage.server()
    task = stage.program(server).acquire("k", lease=6000).acquired()

    def sent():
        """Renewals, or questions, if it has heard of the new primary; whatever becomes of them."""
        stats = server.connection.info("commandstats")
        lines = [stats.get(f"cmdstat_lock.{command}", "") for command in ("extend", "acquire")]
        return sum(int(number) for number in re.findall(r"\b(?:rejected_)?calls=(\d+)", "".join(lines))) - 1

    server("REPLICAOF", "127.0.0.1", 1)
    until(sent, "the renewal", seconds=10)
    watch, before = Watch(), sent()
    until(lambda: sent() >= before + 3, "three more", seconds=10)
    watch.within(1100, 3000, "three more")  # in PHP, each may be sent twice
    server("REPLICAOF", "NO", "ONE")
    until(lambda: server("PTTL", "k") > 5000, "it is renewed", seconds=10)
    assert task.silent()
    task.release()


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
@leases(1500, 6000)
def renewed_though_the_server_gives_less_from_now_on(stage, lease):
    server = stage.server()
    server("CONFIG", "SET", "lock.default-lease", lease)
    task = stage.program(server).acquire("k").acquired()
    until(lambda: server.calls("lock.extend"), "a renewal", seconds=10)
    server("CONFIG", "SET", "lock.default-lease", lease // 3)
    until(lambda: task.events or server.calls("lock.extend") >= 8, "renewals of the shorter lease")
    assert task.silent()
    task.release()


@scenario()
@leases(600, 3000)
def maximum_age_ends_it(stage, lease):
    server = stage.server()
    program = stage.program(server)
    asked, oldest = Watch(), lease * 5 // 2
    task = program.acquire("k", lease=lease, max_hold=oldest).acquired()
    held = Watch()
    task.next("lost")
    # The holder's clock counts from before the last renewal was sent: it is early by as long as that was on its way.
    asked.within(oldest - lease // 3, math.inf, "the maximum age")
    held.within(0, oldest + TOLD, "the maximum age")
    assert server.calls("lock.extend") <= 9, "renewed on, though no renewal makes its lease longer"
    until(lambda: server.lock("k") is None, "the lock is free")


@scenario()
def frozen_holder_is_told_when_it_wakes(stage):
    server = stage.server()
    frozen, other = stage.program(server), stage.program(server)
    task = frozen.acquire("k", lease=1000).acquired()
    waiting = other.acquire("k")
    queued(server, "k", 1)
    frozen.freeze()
    waiting.acquired()
    assert waiting.fences[0] > task.fences[0]
    watch = Watch()
    frozen.thaw()
    task.next("lost")
    watch.within(0, 100, "the loss")
    assert server.lock("k")["fence"] == waiting.fences[0]


@scenario()
def killed_holder_leaves_by_its_lease(stage):
    server = stage.server()
    killed, other = stage.program(server), stage.program(server)
    killed.acquire("k", lease=1500).acquired()
    waiting = other.acquire("k")
    queued(server, "k", 1)
    killed.kill()
    assert server.lock("k")["owner"] != waiting.name and waiting.silent()
    waiting.acquired(seconds=10)


@scenario()
def killed_waiter_leaves_the_queue(stage):
    server = stage.server()
    killed, other = stage.program(server), stage.program(server)
    hold(server, "k")
    killed.acquire("k")
    queued(server, "k", 1)
    waiting = other.acquire("k")
    queued(server, "k", 2)
    killed.kill()
    queued(server, "k", 1)
    free(server, "k")
    waiting.acquired().release()


@scenario()
def close_releases_what_is_held(stage):
    server = stage.server()
    program = stage.program(server)
    tasks = [program.acquire(key).acquired() for key in "abc"]
    program.acquire("s", session=True).acquired()
    hold(server, "w")
    program.acquire("w")
    queued(server, "w", 1)
    program.close()
    assert [server.lock(key) for key in "abcs"] == [None] * 4 and tasks
    assert server.waiters("w") == 0


@scenario(quick=False)
@leases(600, 3000)
def wait_longer_than_the_lease(stage, lease):
    server = stage.server()
    hold(server, "k")
    task = stage.program(server).acquire("k", lease=lease)
    queued(server, "k", 1)
    time.sleep(1.5 * lease / 1000)
    free(server, "k")
    task.acquired()
    begin = time.monotonic()
    until(lambda: task.events or time.monotonic() - begin > 1.5 * lease / 1000, "more than a lease")
    assert task.silent() and server.lock("k")["fence"] == task.fences[0]
    task.release()


@scenario()
def refused_for_a_while(stage):
    """By a primary without its replicas, and by one that runs a long script. Nobody gives up a wait for that, or forgets a release."""
    server, proxy, program = stage.behind_proxy()
    server("CONFIG", "SET", "busy-reply-threshold", 1)

    def replicas(needed):
        server("CONFIG", "SET", "min-replicas-to-write", needed)

    def script():
        asking = Connection(server.port)
        asking.socket.sendall(b'EVAL "while true do end" 0\r\n')
        return asking

    def killed():
        try:
            server("SCRIPT", "KILL")
        except ReplyError as error:
            return str(error).startswith("NOTBUSY")

    for code, begin, end in ((b"-NOREPLICAS", lambda: replicas(1), lambda: replicas(0)),
                             (b"-BUSY", script, lambda: until(killed, "the script ends"))):
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
