"""Events that come in an unusual order: an end, a doubt or a loss in the midst of something else."""

import time

from program import Watch
from proxy import Pair
from scenarios_losses import TOLD
from scenarios_starts import waits, whole_lease
from scenarios_waits import free, hold, queued
from servers import until
from stage import leases, scenario


def passes(seconds, *tasks):
    """So much time, in which nothing is heard of these tasks."""
    begin = time.monotonic()
    until(lambda: any(task.events for task in tasks) or time.monotonic() - begin > seconds, f"{seconds} s")
    assert all(task.silent() for task in tasks)


def witness(program):
    """A task whose loss shows which messages have come: they come in order."""
    return program.acquire("witness", lease=60_000).acquired()


def has_heard(server, task):
    server("LOCK.BREAK", "witness")
    task.next("lost", seconds=10)


@scenario()
def closed_while_it_connects(stage):
    """The first lock makes the connections. What is granted then has nobody who would renew it."""
    server = stage.server()
    proxy = stage.proxy(server)
    program = stage.program(proxy)
    proxy.delay("SUBSCRIBE", 0.5)
    task = program.acquire("k")
    until(lambda: proxy.delays, "it connects")
    program.tell(do="close")
    assert program.await_event(program.general, "closed", 60)["event"] == "closed"
    task.next("error", "not_acquired", "cancelled", seconds=10)
    until(lambda: server.lock("k") is None, "nothing is left behind", seconds=5)


@scenario()
def shortened_by_hand_and_nothing_answers(stage):
    """The server may have set the lease, so nobody believes to hold the lock for longer. A package that tells of losses by itself tells of
    this one then, although the answer to the extend is still awaited: after the loss it is of no use."""
    server, proxy, program = stage.behind_proxy()
    task = program.acquire("k", renew=False, lease=60_000).acquired()
    proxy.replies("swallow")
    watch = Watch()
    program.tell(do="extend", task=task.name, lease=700)
    until(lambda: server.lock("k") is None, "the lease is over")
    if task.next("lost", "error", seconds=10)["event"] == "error":
        task.next("lost", seconds=10)
    watch.within(700, 700 + TOLD + 1000, "the loss")


@scenario()
def shortened_by_another_of_its_owner(stage):
    """Both have one grant, and so one lease: even if nothing answers."""
    server, proxy, program = stage.behind_proxy()
    first, second = [program.acquire("k", owner="alice", renew=False, lease=60_000).acquired() for _ in range(2)]
    proxy.replies("swallow")
    watch = Watch()
    program.tell(do="extend", task=first.name, lease=700)
    second.next("lost", seconds=10)
    watch.within(700, 700 + TOLD + 1000, "the loss")


@scenario()
def shortened_while_a_renewal_is_on_its_way(stage):
    """The answer to the renewal tells of a longer lease, and is the last one that comes."""
    server, proxy, program = stage.behind_proxy()
    task = program.acquire("k", lease=3000).acquired()
    proxy.replies("hold", "commands")
    until(lambda: server.calls("lock.extend"), "the renewal")
    proxy.replies("swallow", "subscription")
    watch = Watch()
    program.tell(do="extend", task=task.name, lease=700)
    begin = time.monotonic()
    until(lambda: server.calls("lock.extend") >= 2 or time.monotonic() - begin > 0.3, "the other one, unless it waits for the first")
    proxy.answer_backwards("commands")
    while task.next("extended", "error", "lost")["event"] != "lost":
        pass
    watch.within(0, 1800, "the loss")


@scenario()
def shortened_by_another_while_a_renewal_is_on_its_way(stage):
    """Both have one grant. The answer to the renewal of one comes after that to the shorter lease of the other."""
    server, proxy, program = stage.behind_proxy()
    first = program.acquire("k", owner="alice", lease=3000).acquired()
    second = program.acquire("k", owner="alice", lease=3000, renew=False).acquired()
    proxy.replies("hold", "commands")
    until(lambda: server.calls("lock.extend"), "the renewal")
    proxy.replies("swallow", "subscription")
    watch = Watch()
    program.tell(do="extend", task=second.name, lease=700)
    begin = time.monotonic()
    until(lambda: server.calls("lock.extend") >= 2 or time.monotonic() - begin > 0.3, "the other one, unless it waits for the first")
    proxy.answer_backwards("commands")
    first.next("lost", seconds=10)
    watch.within(0, 1800, "the loss")


@scenario()
@leases(1000, 5000)
def doubted_before_it_is_claimed(stage, claim):
    """What asks whether the lock is still held claims it, and so asks for the whole lease."""
    server = stage.server()
    server("CONFIG", "SET", "lock.claim", claim)
    program = stage.program(server)
    task = waits(server, program, "k", renew=False, lease=30_000)
    free(server, "k")
    task.acquired()
    [channel] = server("PUBSUB", "CHANNELS")
    server("PUBLISH", channel, f"gone {task.owner}")
    until(lambda: task.events or whole_lease(server), "the whole lease")
    passes(1.5 * claim / 1000, task)
    assert server.lock("k")["fence"] == task.fences[0]


@scenario()
@leases(3000, 15_000)
def doubted_while_a_renewal_is_on_its_way(stage, lease):
    """The renewal's answer does not settle the doubt: it came from the server of before, perhaps."""
    server, proxy, program = stage.behind_proxy()
    hears, task = witness(program), program.acquire("k", lease=lease).acquired()
    proxy.replies("hold", "commands")
    until(lambda: server.calls("lock.extend"), "the renewal")
    [channel] = server("PUBSUB", "CHANNELS")
    server("PUBLISH", channel, f"gone {task.owner}")
    has_heard(server, hears)
    proxy.replies("pass", "commands")
    until(lambda: task.events or server.calls("lock.acquire") >= 3, "it asks", seconds=lease / 4000)
    assert task.silent()
    task.release()


@scenario()
def session_cut_longer_than_the_lease(stage):
    """The server ends the session as soon as it sees the end of the connection, or when the lease is over."""
    server, proxy, program = stage.behind_proxy()
    task = program.acquire("k", session=True, lease=1200).acquired()
    watch = Watch()
    proxy.refuse()
    task.next("lost")
    watch.within(0, 2 * 1200 + TOLD, "the loss")


@scenario()
def release_of_a_session_is_lost(stage):
    """The server renews the lease for as long as the connection is open: so the release is sent again until it is answered."""
    server, proxy, program = stage.behind_proxy()
    task = program.acquire("k", session=True, lease=1200).acquired()
    proxy.lose("LOCK.RELEASE")
    program.tell(do="release", task=task.name)
    until(lambda: isinstance(proxy.lost, Pair), "the release")
    begin = time.monotonic()
    until(lambda: time.monotonic() - begin > 1.5, "more than the lease")
    assert server.lock("k")
    proxy.hang_up()
    until(lambda: not server.lock("k"), "it is given back")
    task.next("released", "lost")


@scenario()
def loss_that_the_release_finds(stage):
    """Nobody heard of it before: then the answer to the release tells it, and only once."""
    server, proxy, program = stage.behind_proxy()
    task = program.acquire("k", lease=60_000).acquired()
    proxy.replies("swallow", "subscription")
    server("LOCK.BREAK", "k")
    task.release("lost")
    passes(0.2, task)


@scenario()
def loss_of_one_of_several_that_the_release_finds(stage):
    server, proxy, program = stage.behind_proxy()
    task = program.acquire("a", "b", lease=60_000).acquired()
    proxy.replies("swallow", "subscription")
    server("LOCK.BREAK", "b")
    task.release("lost")
    assert server.lock("a") is None


@scenario()
def lost_before_the_answer_came(stage):
    """The message of the loss is faster than the answer with the grant."""
    server, proxy, program = stage.behind_proxy()
    hears = witness(program)
    proxy.replies("hold", "commands")
    task = program.acquire("k", lease=60_000)
    until(lambda: server.lock("k"), "the grant")
    server("LOCK.BREAK", "k")
    has_heard(server, hears)
    watch = Watch()
    proxy.replies("pass", "commands")
    if task.next("acquired", "lost")["event"] == "acquired":
        task.next("lost")
    watch.within(0, 200, "the loss")


@scenario()
def message_comes_before_the_answer(stage):
    server, proxy, program = stage.behind_proxy()
    for options in ({}, {"owner": "named"}):
        hears = witness(program)
        hold(server, "k")
        proxy.replies("hold", "commands")
        task = program.acquire("k", **options)
        queued(server, "k", 1)
        free(server, "k")
        until(lambda: server.lock("k")["owner"] != "driver", "the grant")
        has_heard(server, hears)
        watch = Watch()
        proxy.replies("pass", "commands")
        task.acquired()
        watch.within(0, 300, "the lock, without asking again some time")
        task.release()


@scenario()
def late_message_of_a_loss_ends_no_later_grant(stage):
    """It has the same owner, and another fence."""
    server, proxy, program = stage.behind_proxy()
    hears, task = witness(program), program.acquire("k", owner="alice", lease=60_000).acquired()
    proxy.replies("hold", "subscription")
    server("LOCK.BREAK", "k")
    task.release("lost")
    again = program.acquire("k", owner="alice", lease=60_000).acquired()
    proxy.replies("pass", "subscription")
    has_heard(server, hears)
    assert again.silent() and server.lock("k")["fence"] == again.fences[0]
    again.release()


@scenario(quick=False)
def nothing_is_renewed_after_its_end(stage):
    """Not even if a renewal is on its way when the lock ends."""
    server, proxy, program = stage.behind_proxy()
    released, broken = [program.acquire(key, lease=1500).acquired() for key in "ab"]
    proxy.delay("EXTEND", 0.3)
    until(lambda: proxy.delays >= 2, "the renewals are on their way")
    server("LOCK.BREAK", "b")
    broken.next("lost", seconds=2)
    released.release()
    until(lambda: server.lock("a") is None, "the release")
    passes(0.5, broken, released)
    extends, acquires = server.calls("lock.extend"), server.calls("lock.acquire")
    passes(3, broken, released)
    assert (server.calls("lock.extend"), server.calls("lock.acquire")) == (extends, acquires)
