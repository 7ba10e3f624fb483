"""Scenarios on a cluster: one subscription for each shard in which the process waits or holds, also when shards change."""

import itertools
import signal

import servers
from program import Watch
from scenarios_network import loses_answer_and_one_of_several, serves, told_at_once
from scenarios_waits import LONG, crowd, free, hold, queued
from servers import until
from stage import scenario


def keys_of(nodes):
    """Finds a key for each node."""
    return [next(key for key in map("{{k{}}}".format, itertools.count()) if serves(node, key)) for node in nodes]


def channels(node):
    return node("PUBSUB", "SHARDCHANNELS", "redislock:*")


def listens(node):
    until(lambda: len(channels(node)) == 1, "it listens at that node alone")


def hears(node, program, key):
    """A holder on this node is told of a loss at once."""
    told_at_once(node, program.acquire(key).acquired(), key)


def hold_of_both(node, replica, key):
    """Holds a lock that the replica knows, so that it stays held after a failover."""
    hold(node, key)
    replica("READONLY")
    until(lambda: replica.lock(key), "the replica has the lock")


def handed_over(node, task, key):
    """The waiter gets the lock by a message: asking again would take seconds."""
    watch = Watch()
    free(node, key)
    task.acquired(seconds=10)
    watch.within(0, 1000, "the handover")
    told_at_once(node, task, key)


def ways_to(stage, nodes):
    """Puts a proxy before each node. Clients are sent to the proxies."""
    ways = [stage.proxy(node) for node in nodes]
    for node, way in zip(nodes, ways):
        node("CONFIG", "SET", "cluster-announce-port", way.port)
    ports = {way.port for way in ways}
    for node in nodes:
        until(lambda: {row[2][1] for row in node("CLUSTER", "SLOTS")} == ports, "the nodes know the ways")
    return ways


def clients(node, doing=""):
    return {line.split()[0] for line in node("CLIENT", "LIST").splitlines() if doing in line}


# The rights that docs/operations/secure.md gives packages in a cluster, and those that the driver needs.
RIGHTS = """resetchannels &redislock:* -@all +lock.acquire +lock.release +lock.extend +lock.leave +lock.info +subscribe +unsubscribe +ssubscribe
    +sunsubscribe +@connection -@dangerous +cluster|slots +cluster|shards +cluster|nodes +cluster|info +command +acl"""


@scenario()
def messages_stay_in_their_shard(stage):
    nodes = stage.cluster()
    keys = keys_of(nodes)
    for node in nodes:
        node("ACL", "SETUSER", "default", *RIGHTS.split())
    programs = [stage.program(nodes, kind="cluster") for _ in range(2)]
    crowd(programs, 5, keys, 6, lambda key: nodes[keys.index(key)].lock(key))
    for node in nodes:
        node("ACL", "SETUSER", "default", "allcommands", "allchannels")
    for node in nodes:
        assert len(channels(node)) == 2, "one for each process"
    assert not any("cluster_stats_messages_publish_sent:" in node("CLUSTER", "INFO") for node in nodes), "messages went to other nodes"
    counts = [stats for node in nodes for name, stats in node.connection.info("commandstats").items() if name.startswith("cmdstat_lock")]
    moved = sum(int(stats.split("rejected_calls=")[1].split(",")[0]) for stats in counts)
    assert moved <= 6, f"{moved} commands went to a wrong node"


@scenario(quick=False)
def primary_that_is_killed_under_a_waiter(stage):
    nodes = stage.cluster()
    replica, *_ = servers.replicas_of(nodes, stage.start, stage.folder)
    key, *_ = keys_of(nodes)
    program = stage.program(nodes, kind="cluster")
    hold_of_both(nodes[0], replica, key)
    task = program.acquire(key, wait=LONG)
    queued(nodes[0], key, 1)
    nodes[0].kill()
    replica("CLUSTER", "FAILOVER", "TAKEOVER")
    queued(replica, key, 1)
    listens(replica)
    handed_over(replica, task, key)


@scenario(quick=False)
def primary_that_is_silent_under_a_waiter(stage):
    """A node still accepts connections, but never answers."""
    nodes = stage.cluster()
    replica, *_ = servers.replicas_of(nodes, stage.start, stage.folder)
    key, other, _ = keys_of(nodes)
    program = stage.program(nodes, kind="cluster")
    hold_of_both(nodes[0], replica, key)
    task, held = program.acquire(key, wait=LONG), program.acquire(other, lease=10_000).acquired()
    queued(nodes[0], key, 1)
    nodes[0].process.send_signal(signal.SIGSTOP)
    replica("CLUSTER", "FAILOVER", "TAKEOVER")
    queued(replica, key, 1)
    handed_over(replica, task, key)
    assert held.silent()
    hears(nodes[1], program, "{%s}2" % other.strip("{}"))


@scenario()
def slot_moves_back_and_forth_under_waiter_and_holder(stage):
    nodes = stage.cluster()
    source, target, _ = nodes
    key, other, _ = keys_of(nodes)
    program = stage.program(nodes, kind="cluster")
    near = program.acquire(other).acquired()  # so that the package listens at this node already
    held = program.acquire(key, lease=LONG).acquired()
    waiting = program.acquire(key, wait=LONG)
    queued(source, key, 1)
    added = servers.join(nodes, stage.start, stage.folder / "added")
    for here, there in [(source, target), (target, source), (source, added)]:
        servers.move_slot(key, here, there)
        queued(there, key, 1)
        assert held.silent() and there.lock(key)["fence"] == held.fences[0]
    listens(added)
    held.release()
    told_at_once(added, waiting.acquired(), key)
    hears(added, program, key)
    near.release()


@scenario()
def slot_of_the_channel_moves(stage):
    nodes = stage.cluster()
    source, target, _ = nodes
    key, _, other = keys_of(nodes)
    program = stage.program(nodes, kind="cluster")
    session = program.acquire(other, session=True).acquired()
    hold(source, key)
    waiting = program.acquire(key, wait=LONG)
    queued(source, key, 1)
    [before] = channels(source)
    for known in (True, False):
        servers.move_slot(before, source, target, ends=known)
        slot, name = source("CLUSTER", "KEYSLOT", before), target("CLUSTER", "MYID")
        watch = Watch()
        source("CLUSTER", "SETSLOT", slot, "NODE", name)  # the other nodes may still redirect clients to the source
        until(lambda: channels(source) not in ([], [before]), "it listens to another channel")
        watch.within(0, 2000, "the new subscription")
        target("CLUSTER", "SETSLOT", slot, "NODE", name)
        [before] = channels(source)
        queued(source, key, 1)
    handed_over(source, waiting, key)
    hears(source, program, key)
    program.acquire("{%s}2" % other.strip("{}")).acquired().release()
    session.release()  # works if the session's connection was never closed


@scenario()
def first_node_is_removed(stage):
    """Removes a node as redis-cli does: it stays up, has no slots, and knows no other node."""
    nodes = stage.cluster()
    source, target, _ = nodes
    key, other, _ = keys_of(nodes)
    first = servers.join(nodes, stage.start, stage.folder / "first")
    first("CONFIG", "SET", "cluster-allow-replica-migration", "no")  # otherwise it would become a replica of the node that gets its last slot
    servers.move_slot(key, source, first)
    program = stage.program([first, *nodes], kind="cluster")
    hold(first, key)
    waiting, held = program.acquire(key, wait=LONG), program.acquire(other, lease=LONG).acquired()
    queued(first, key, 1)
    servers.move_slot(key, first, source)
    for node in nodes:
        node("CLUSTER", "FORGET", first("CLUSTER", "MYID"))
    first("CLUSTER", "RESET")
    queued(source, key, 1)
    servers.move_slot(key, source, target)
    queued(target, key, 1)
    handed_over(target, waiting, key)
    held.release()
    for key in keys_of(nodes[1:]):
        program.acquire(key).acquired().release()


@scenario(quick=False)
def slot_that_no_node_has_for_a_while(stage):
    nodes = stage.cluster()
    key, other, _ = keys_of(nodes)
    slot, program = nodes[0]("CLUSTER", "KEYSLOT", key), stage.program(nodes, kind="cluster")
    for node in nodes:
        node("CONFIG", "SET", "cluster-require-full-coverage", "no")
        node("CLUSTER", "DELSLOTS", slot)
    program.acquire(other, session=True).acquired(seconds=20).release()
    task = program.acquire(key, wait=LONG)
    program.acquire(key, wait=0, session=True).next("error", "not_acquired")
    nodes[0]("CLUSTER", "ADDSLOTS", slot)
    task.acquired(seconds=20).release()
    until(lambda: all(any(first <= slot <= last for first, last, *_ in node("CLUSTER", "SLOTS")) for node in nodes),
          "all nodes know who has the slot: the others answer CLUSTERDOWN until then")
    program.acquire(key, wait=0, session=True).acquired(seconds=20).release()


@scenario(quick=False)
def subscription_that_nobody_needs_is_closed(stage):
    nodes = stage.cluster()
    near, far, _ = nodes
    key, other, _ = keys_of(nodes)
    program = stage.program(nodes, kind="cluster")
    held = program.acquire(key).acquired()
    program.acquire(other).acquired().release()
    assert len(channels(far)) == 1
    until(lambda: not channels(far), "it is closed")
    assert held.silent() and len(channels(near)) == 1
    hears(far, program, other)


@scenario()
def several_locks_whose_answer_is_lost(stage):
    """Libraries for clusters may send a command again by themselves, so that the package does not see that an answer was lost."""
    nodes = stage.cluster()
    [key, *_], ways = keys_of(nodes), ways_to(stage, nodes)
    loses_answer_and_one_of_several(nodes[0], ways[0], stage.program(ways, kind="cluster"), key)


@scenario(quick=False)
def links_to_one_node_die_unnoticed(stage):
    """If connections to one node are cut, they are made anew, and those to other nodes stay."""
    nodes = stage.cluster()
    keys, ways = keys_of(nodes)[:2], ways_to(stage, nodes)
    program = stage.program(ways, kind="cluster")
    for node, key in zip(nodes, keys):
        hold(node, key)
    near, far = [program.acquire(key, wait=LONG) for key in keys]
    for node, key in zip(nodes, keys):
        queued(node, key, 1)
    others, dead = clients(nodes[1], "cmd=lock."), [pair for pair in ways[0].pairs if pair.kind == "subscription"]
    ways[0].forget("subscription")
    until(lambda: not set(dead) & set(ways[0].pairs), "its subscription is given up")
    program.acquire("{%s}2" % keys[0].strip("{}")).acquired(seconds=10).release()
    ways[0].forget("commands")
    program.acquire("{%s}3" % keys[0].strip("{}")).acquired(seconds=30).release()
    assert others and others <= clients(nodes[1]), "links to another node are gone, too"
    handed_over(nodes[1], far, keys[1])
    free(nodes[0], keys[0])
    told_at_once(nodes[0], near.acquired(seconds=20), keys[0])
