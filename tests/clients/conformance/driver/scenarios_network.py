"""Scenarios: lost connections, lost messages, servers that end or change."""

from program import Watch
from resp import ReplyError
from scenarios_waits import LONG, crowd, free, hold, queued, waits
from servers import until
from stage import scenario


def told_at_once(server, task, key="k"):
    """The holder is still told of a loss by a message, without waiting for a renewal."""
    watch = Watch()
    server("LOCK.BREAK", key)
    task.next("lost")
    watch.within(0, 100, "the loss")


def heard_again(server, proxy):
    """Waits until the subscription has been made anew."""
    until(lambda: any(pair.kind == "subscription" for pair in proxy.pairs) and server.connection.info("clients").get("pubsub_clients") != "0"
          and server("PUBSUB", "CHANNELS"), "the subscription")


@scenario()
def cut_commands_while_waiting(stage):
    server, proxy, program = stage.behind_proxy()
    hold(server, "k")
    tasks = [program.acquire("k") for _ in range(20)]
    queued(server, "k", 20)
    proxy.cut("commands")
    queued(server, "k", 20)
    free(server, "k")
    for _ in tasks:
        now = until(lambda: next((task for task in tasks if task.events), None), "the next one", seconds=15)
        now.acquired().release()
        tasks = [task for task in tasks if task is not now]
    assert server.lock("k") is None


@scenario()
def cut_subscription(stage):
    """A loss during a cut is noticed when the subscription is back, not only at the next renewal."""
    server, proxy, program = stage.behind_proxy()
    kept, broken = [program.acquire(key, lease=60_000).acquired() for key in ("kept", "broken")]
    task = waits(server, program, "k")
    watch = Watch()
    proxy.swallow("subscription")
    server("LOCK.BREAK", "broken")
    free(server, "k")
    proxy.cut_swallowed()
    broken.next("lost")
    task.acquired()
    watch.within(0, 2500, "the loss, and the lock")
    heard_again(server, proxy)
    assert kept.silent()
    told_at_once(server, kept, "kept")
    told_at_once(server, task)


@scenario(quick=False)
def wait_without_an_answer(stage):
    """With a silent server, nobody knows whether others hold the lock, so the package must not say that they do. Each wait ends within its
    time and one client timeout of 5 s, however many waits there are."""
    proxy = stage.proxy(stage.server())
    program = stage.program(proxy)
    program.acquire("other").acquired().release()  # so that its connections exist
    proxy.swallow()
    watch = Watch()
    for task in [program.acquire("k", wait=500) for _ in range(40)]:
        event = task.next("not_acquired", "error")
        assert "free" not in event["reason"], event
    watch.within(0, 500 + 5000 + 500, "the waits")


@scenario()
def cut_longer_than_the_lease(stage):
    """A holder that can't reach the server is told when its lease is over. The server ends a session when its connection closes or, if it can't
    see this, when the lease is over."""
    server, proxy, program = stage.behind_proxy()
    task, session = program.acquire("k", lease=1200).acquired(), program.acquire("s", session=True, lease=1200).acquired()
    watch = Watch()
    proxy.refuse()
    task.next("lost")
    watch.within(700, 1250, "the lease")
    session.next("lost")
    watch.within(0, 2500, "the session's lease")


@scenario(quick=False)
def forgotten_connections_are_made_anew(stage):
    """If the network forgets connections, the holder renews in time over a new one, the waiter asks again, and so does the subscription."""
    server, proxy, program = stage.behind_proxy()
    held = program.acquire("held", lease=30_000).acquired()
    hold(server, "k")
    waiting = program.acquire("k")
    queued(server, "k", 1)
    [subscription] = [pair for pair in proxy.pairs if pair.kind == "subscription"]
    proxy.forget()
    free(server, "k")
    waiting.acquired(seconds=20).release()
    until(lambda: held.events or server.lock("held")["fence"] == held.fences[0] and server.calls("lock.extend"), "the renewal", seconds=25)
    until(lambda: subscription not in proxy.pairs, "the program gives it up", seconds=40)
    heard_again(server, proxy)
    assert held.silent()
    told_at_once(server, held, "held")


@scenario()
def answer_to_an_acquire_is_lost(stage):
    server, proxy, program = stage.behind_proxy()
    program.acquire("other").acquired().release()
    proxy.swallow("commands")
    task = program.acquire("k")
    until(lambda: server.lock("k"), "the grant")
    proxy.cut_swallowed()
    task.acquired(seconds=15)
    assert server.lock("k")["holds"] == 1
    task.release()
    assert server.lock("k") is None


def loses_answer_and_one_of_several(server, proxy, program, key):
    """The second try gets null, although the first one still holds the other lock."""
    program.acquire(key).acquired().release()
    proxy.swallow("commands")
    task = program.acquire(key, key + "2", wait=0, lease=LONG)
    until(lambda: server.lock(key), "the grant")
    server("LOCK.BREAK", key)
    server("LOCK.ACQUIRE", key, "OWNER", "bob", "PX", LONG)
    proxy.cut_swallowed()
    task.next("not_acquired", seconds=15)
    until(lambda: server.lock(key + "2") is None, "the other lock is given back", seconds=5)


@scenario()
def answer_is_lost_and_then_one_of_several_locks(stage):
    loses_answer_and_one_of_several(*stage.behind_proxy(), "{k}")


@scenario()
def answer_to_a_release_is_lost(stage):
    server, proxy, program = stage.behind_proxy()
    task = program.acquire("k", owner="alice").acquired()
    proxy.swallow("commands")
    program.tell(do="release", task=task.name)
    until(lambda: server.lock("k") is None, "the release")
    server("LOCK.ACQUIRE", "k", "OWNER", "alice", "PX", LONG)
    proxy.cut_swallowed()
    task.next("released")
    until(lambda: server.calls("lock.release") >= 2, "it is sent again")
    assert server.lock("k")["owner"] == "alice", "a late release ended another grant"


def _takes_over(sentinel):
    try:
        return sentinel("SENTINEL", "FAILOVER", "locks")
    except ReplyError as refusal:
        if "NOGOODSLAVE" not in str(refusal):
            raise


def fails_over(stage, lease, ends, acquires):
    first = stage.server()
    second, sentinel = stage.sentinels(first)
    program = stage.program(sentinel, kind="sentinel")
    crowd([program], 20, ["crowd"], 1, first.lock)
    held = program.acquire("k", lease=lease).acquired()
    waiting = program.acquire("k")
    queued(first, "k", 1)
    until(lambda: second.lock("k"), "the replica has the lock")
    ends(first, sentinel)
    until(lambda: second.connection.info("replication")["role"] == "master", "the failover")
    until(lambda: second.waiters("k") == 1, "the waiter asks the new primary", seconds=60)
    until(lambda: second.calls("lock.acquire") >= acquires, "the holder has asked as well", seconds=60)
    assert held.silent() and second.lock("k")["fence"] == held.fences[0]
    held.release()
    return second, waiting.acquired(seconds=15)


@scenario(quick=False, leases=(30_000, 60_000))
def failed_over_by_sentinel(stage, lease):
    told_at_once(*fails_over(stage, lease, lambda _, sentinel: until(lambda: _takes_over(sentinel), "the replica is in step"), 2))


@scenario(quick=False, leases=(30_000, 60_000))
def primary_killed_and_failed_over_by_sentinel(stage, lease):
    fails_over(stage, lease, lambda first, _: first.kill(), 1)  # in PHP, a holder asks later


@scenario()
def cluster_of_three(stage):
    nodes = stage.cluster()
    program = stage.program(nodes, kind="cluster")
    crowd([program], 40, ["{a}1", "{b}2", "{c}3", "{d}4"], 4, lambda key: next(node for node in nodes if serves(node, key)).lock(key))
    both = program.acquire("{a}x", "{a}y").acquired()
    both.release()


@scenario()
def one_node_of_a_cluster(stage):
    nodes = stage.cluster()
    program = stage.program(next(node for node in nodes if not serves(node, "k")))
    said = program.acquire("k").next("error")["message"]
    assert "cluster" in said.lower() or "moved" in said.lower(), said


def serves(node, key):
    slot = node("CLUSTER", "KEYSLOT", key)
    return any(first <= slot <= last and nodes[1] == node.port for first, last, nodes, *_ in node("CLUSTER", "SLOTS"))
