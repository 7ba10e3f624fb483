"""Scenarios: what an observer is told about each wait and each lock, from its beginning to its end."""

from scenarios_waits import queued, waits
from stage import scenario


@scenario()
def observer_is_told_of_waits_and_locks(stage):
    server, program = stage.both(observe=True)
    held = program.acquire("k", limit=1).acquired()
    program.told("acquired k limit")
    program.acquire("k", wait=0).next("not_acquired")
    program.told("refused k exclusive busy")
    program.acquire("k", wait=500).next("not_acquired")
    program.told("waiting k exclusive")
    [refused] = program.told("refused k exclusive timeout")
    assert refused["ms"] >= 500, refused
    shared = program.acquire("k", shared=True)
    program.told("waiting k shared")
    held.release()
    shared.acquired()
    program.told("acquired k shared", "released k limit")
    several = program.acquire("a", "b").acquired()
    program.told("acquired a,b exclusive")
    several.release()
    program.told("released a,b exclusive")
    server("SET", "text", "")
    program.acquire("text").next("error")
    program.told("refused text exclusive error")
    shared.release()
    program.told("released k shared")


@scenario()
def observer_is_told_of_a_deadlock(stage):
    server, program = stage.both(observe=True)
    program.acquire("a", owner="alice").acquired()
    program.told("acquired a exclusive")
    server("LOCK.ACQUIRE", "b", "OWNER", "bob")
    server("LOCK.ACQUIRE", "a", "OWNER", "bob", "NOTIFY", "channel", "ONCE", "BLOCK", 0)
    event = program.acquire("b", owner="alice", detect=True).next("deadlock")
    assert "alice" in event["cycle"] and "bob" in event["cycle"] and server.waiters("b") == 0, event
    program.told(*["waiting b exclusive"] * ("php" in str(stage.command[0])), "refused b exclusive deadlock")  # PHP first asks without a wait


@scenario()
def observer_is_told_of_a_loss_once(stage):
    server, program = stage.both(observe=True)
    key = "it's: 'a'"  # the reason must not contain the key, or each lock would be a time series
    for found_by_release in (False, True):
        task = program.acquire(key).acquired()
        program.told(f"acquired {key} exclusive")
        if found_by_release:
            server("LOCK.RELEASE", key, task.owner)  # the holder gets no message of this
            task.release("lost")
        else:
            server("LOCK.BREAK", key)
            task.next("lost")
        [lost] = program.told(f"lost {key} exclusive")
        assert lost["reason"] and "it's" not in lost["reason"], lost
    program.acquire("k").acquired().release()
    program.told("acquired k exclusive")
    program.told("released k exclusive")


@scenario(leases=(4000, 8000, 16_000))
def observer_is_told_of_what_closing_ends(stage, lease):
    server, program = stage.both(observe=True)
    for key, options in (("k", {}), ("twice", {"owner": "me"}), ("twice", {"owner": "me"})):
        program.acquire(key, lease=lease, **options).acquired()
        program.told(f"acquired {key} exclusive")
    gone = program.acquire("gone", lease=lease).acquired()
    program.told("acquired gone exclusive")
    server("LOCK.RELEASE", "gone", gone.owner)  # the holder gets no message of this
    program.close()
    program.told("lost gone exclusive", "released k exclusive", "released twice exclusive", "released twice exclusive")
    assert not program.observed, program.observed


@scenario()
def observer_is_told_of_what_closing_can_not_give_back(stage):
    proxy = stage.proxy(stage.server())
    program = stage.program(proxy, observe=True)
    program.acquire("k", lease=1000).acquired()
    program.told("acquired k exclusive")
    proxy.refuse()
    program.close()
    [lost] = program.told("lost k exclusive")
    assert lost["reason"], lost


@scenario()
def observer_is_told_of_waits_that_are_ended(stage):
    server, program = stage.both(observe=True)
    task = waits(server, program, "k")
    program.told("waiting k exclusive")
    task.cancel()
    program.told("refused k exclusive cancelled")
    program.acquire("k")
    queued(server, "k", 1)
    program.told("waiting k exclusive")
    program.close()
    program.told("refused k exclusive closed")
