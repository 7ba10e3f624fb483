"""Scenarios: the kinds of locks, options, and refused input."""

import re
import socket
from pathlib import Path

from program import Watch
from scenarios_waits import free, hold, queued
from servers import until
from stage import scenario


@scenario()
def options_reach_the_server(stage):
    server, program = stage.both()
    assert [program.acquire("shared", shared=True).acquired().slot for _ in range(2)] == [None] * 2
    second = program.acquire("k", limit=3, slot=2, label="host 7").acquired()
    assert "host 7" in repr(server("LOCK.INFO", "k", "FULL"))
    assert [task.slot for task in (second, *(program.acquire("k", limit=3).acquired() for _ in range(2)))] == [2, 1, 3]
    waiting = program.acquire("k", limit=3, slot=2)
    queued(server, "k", 1)
    second.release()
    assert waiting.acquired().slot == 2


def process(fields):
    """The text that describes a holder or waiter: the label, or else the client's name."""
    return fields["label"] or fields["client-name"]


def named(program):
    """The expected text: host and process. In PHP, this is a child process of the program, since each task is a process."""
    host = re.sub("[^A-Za-z0-9._-]", "_", socket.gethostname())[:64]
    children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children").read_text().split()
    return [f"{host}:{pid}" for pid in [program.process.pid, *children]]


@scenario()
def who_holds_and_who_waits_can_be_found(stage):
    server = stage.server()
    first, second = stage.program(server), stage.program(server)
    holder = first.acquire("k", lease=3000).acquired()
    waiter = second.acquire("k")
    queued(server, "k", 1)
    assert process(server.lock("k")) in named(first)
    [waits] = server("LOCK.WAITS", "KEY", "k")[1]
    assert process(dict(zip(waits[::2], waits[1::2]))) in named(second)
    holder.release()
    waiter.acquired()
    assert process(server.lock("k")) in named(second)
    until(lambda: server.calls("lock.extend"), "a renewal, or the claim")
    assert process(server.lock("k")) in named(second)


@scenario()
def option_that_the_server_does_not_know(stage):
    server, proxy, program = stage.behind_proxy()
    proxy.rewrite("\r\nLABEL\r\n", "\r\nLEBAL\r\n")
    event = program.acquire("k", label="host 7").next("too_old")
    assert "upgrade" in event["message"], event


@scenario()
def one_of_several_locks_is_lost(stage):
    """If one of two locks is lost, the other is released, and does not only lapse: its lease is longer than the scenario waits."""
    server, program = stage.both()
    task = program.acquire("a", "b", lease=15_000).acquired()
    server("LOCK.BREAK", "b")
    task.next("lost", seconds=10)
    until(lambda: server.calls("lock.mrelease"), "the package gives up the other one", seconds=5)
    until(lambda: server.lock("a") is None, "the other one is free", seconds=5)


@scenario()
def owner_enters_again(stage):
    server, program = stage.both()
    outer = program.acquire("k", owner="alice").acquired()
    inner = program.acquire("k", owner="alice").acquired()
    assert inner.fences == outer.fences
    inner.release()
    assert server.lock("k")["owner"] == "alice"
    outer.release()
    assert server.lock("k") is None


@scenario()
def session_ends_with_its_process(stage):
    server, program = stage.both()
    killed = stage.program(server)
    for _ in range(2):
        killed.acquire("k", limit=2, session=True, lease=60_000).acquired()
    waiting = [program.acquire("k", limit=2) for _ in range(3)]
    queued(server, "k", 3)
    watch = Watch()
    killed.kill()
    until(lambda: sum(bool(task.events) for task in waiting) == 2, "both permits are told", seconds=10)
    watch.within(0, 1000, "the permits of a process that was killed")
    inside = [task.acquired() for task in waiting if task.events]
    assert sorted(task.slot for task in inside) == [1, 2]
    inside[0].release()
    [last] = [task for task in waiting if task not in inside]
    last.acquired().release()


@scenario(quick=False, leases=(1000, 5000))
def session_of_a_grant_that_was_over_before_it_was_told(stage, lease):
    server = stage.server("--enable-debug-command", "yes")
    hold(server, "k")
    task = stage.program(server).acquire("k", session=True, lease=lease)
    queued(server, "k", 1)
    # In one transaction, so that the server can be paused between the grant and the answer.
    server("MULTI")
    free(server, "k")
    server("DEBUG", "SLEEP", 2 * lease / 1000)
    assert server("EXEC")[-1] == "OK"
    task.acquired()
    if held := server.lock("k"):  # a package that asks again may have got a new grant, with the answer in time
        assert held["fence"] == task.fences[0]
        task.release("released", "lost")
    else:
        task.next("lost")
    until(lambda: server.lock("k") is None, "nothing is left behind")


@scenario()
def confirmed_by_replicas(stage):
    server, program = stage.both()
    program.acquire("k", sync=[1, 100]).next("not_confirmed")
    assert server.lock("k") is None
    replica = stage.server("--replicaof", "127.0.0.1", server.port)
    until(lambda: replica.connection.info("replication")["master_link_status"] == "up", "the replica follows")
    task = program.acquire("k", sync=[1, 5000]).acquired()
    assert replica.lock("k")["owner"] == task.owner
    task.release()


@scenario()
def bad_input_is_refused_before_anything_is_sent(stage):
    server, program = stage.both()
    bad = [dict(owner=""), dict(owner="x" * 129), dict(lease=0), dict(wait=-1), dict(max_hold=0), dict(limit=0),
           dict(shared=True, limit=2), dict(sync=[0, 100]), dict(slot=1), dict(limit=2, slot=3), dict(limit=2, slot=0)]
    for options in bad:
        program.acquire("k", **options).next("refused")
    program.acquire().next("refused")
    assert server.calls("lock.acquire") == 0


@scenario()
def server_without_the_module(stage):
    event = stage.program(stage.server(module=False)).acquire("k").next("no_module")
    assert "module" in event["message"].lower(), event
