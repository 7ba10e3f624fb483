"""Tasks of one owner that share a grant: what shortens or ends it counts for all of them at once."""

import time

from program import Watch
from proxy import Pair
from scenarios_losses import TOLD
from servers import until
from stage import scenario


@scenario()
def shortened_by_another_while_it_enters(stage):
    """The answer to the acquire tells of the lease from before."""
    server, proxy, program = stage.behind_proxy()
    first = program.acquire("k", owner="alice", renew=False, lease=60_000).acquired()
    proxy.replies("hold", "commands")
    entered = server.calls("lock.acquire")
    second = program.acquire("k", owner="alice", renew=False, lease=60_000)
    until(lambda: server.calls("lock.acquire") > entered, "the other acquire")
    proxy.replies("swallow", "subscription")
    watch = Watch()
    program.tell(do="extend", task=first.name, lease=700)
    begin = time.monotonic()
    until(lambda: server.calls("lock.extend") or time.monotonic() - begin > 0.3, "the shorter lease, unless it waits for the acquire")
    proxy.answer_backwards("commands")
    if second.next("acquired", "lost", seconds=10)["event"] == "acquired":
        second.next("lost", seconds=10)
    watch.within(0, 1800, "the loss")


@scenario()
def shortened_by_the_renewal_of_another(stage):
    """It renews the grant for less, and nothing answers."""
    server, proxy, program = stage.behind_proxy()
    first = program.acquire("k", owner="alice", lease=1500).acquired()
    second = program.acquire("k", owner="alice", renew=False, lease=60_000).acquired()
    proxy.replies("swallow")
    until(lambda: server.calls("lock.extend"), "the renewal")
    watch = Watch()
    for task in (first, second):
        task.next("lost", seconds=10)
    watch.within(0, 1500 + TOLD, "the losses")


@scenario()
def loss_that_another_of_its_owner_finds(stage):
    """The message of it does not come, but a renewal is refused."""
    server, proxy, program = stage.behind_proxy()
    first = program.acquire("k", owner="alice", lease=3000).acquired()
    second = program.acquire("k", owner="alice", renew=False, lease=60_000).acquired()
    proxy.replies("swallow", "subscription")
    server("LOCK.BREAK", "k")
    first.next("lost", seconds=10)
    watch = Watch()
    second.next("lost", seconds=10)
    watch.within(0, TOLD, "the loss")


@scenario()
def lost_while_another_acquire_is_unanswered(stage):
    """Who waits under the owner's name knows of no grant, and is to give back the rest all the same."""
    server, proxy, program = stage.behind_proxy()
    first = program.acquire("k", "l", owner="alice", renew=False, lease=600_000).acquired()
    proxy.lose("LOCK.MACQUIRE")
    second = program.acquire("k", "l", owner="alice", wait=1500, renew=False, lease=600_000)
    until(lambda: isinstance(proxy.lost, Pair), "the other acquire")
    server("LOCK.BREAK", "l")
    first.next("lost")
    second.next("not_acquired", "error")
    proxy.hang_up()
    until(lambda: not server.lock("k"), "it is given back")
