"""Serial work per user: many workers, yet each user's requests are done one at a time and in the order of the queue.

For each request there is a ticket with its user's name in one queue for all. A worker moves a ticket to a list of its
own, takes the user's lock, and does the first request of that user's list: whichever worker comes first, the order is
that of the list. Only the end of the work takes the request and the ticket away, in one step, so nothing is lost with
a worker that dies: its ticket goes back, and the request that it had begun is begun once more.
"""

import signal
import time
from collections import namedtuple

import pytest

from support import connect, held, pairs, wait_for

USERS = [f"user-{number}" for number in range(20)]
REQUESTS = [f"request-{number}" for number in range(100)]
BURST = 5  # that many requests of one user come in a row, so that workers meet at its lock
WORKERS = [f"worker-{number}" for number in range(16)]
LEASE = 8
SLACK = 7  # for a slow machine; a grant to a dead worker would cost a whole lease more

Entry = namedtuple("Entry", "event request worker fence time")


def work(port, worker, pause_at=None):
    """Works until a ticket says stop; at the user and the request of `pause_at` the first worker stands still."""
    client = connect(port, client_name=worker)
    while (user := client.blmove("tickets", f"tickets:{worker}", 0)) != "stop":
        with held(client, f"lock:{user}", LEASE * 1000) as fence:

            def entry(event):
                return " ".join([event, str(request), worker, str(fence), str(time.monotonic())])

            request = client.lindex(f"requests:{user}", 0)
            client.rpush(f"log:{user}", entry("begin"))
            if (user, request) == pause_at and client.set("paused", worker, nx=True):
                signal.pause()
            time.sleep(0.0005)  # the others' chance
            with client.pipeline(transaction=True) as step:
                step.lpop(f"requests:{user}")
                step.delete(f"tickets:{worker}")
                step.rpush(f"log:{user}", entry("end"))
                step.incr("done")
                step.execute()


def start(server, workers, client, pause_at=None):
    for user in USERS:
        client.rpush(f"requests:{user}", *REQUESTS)
    for _ in range(len(REQUESTS) // BURST):
        client.rpush("tickets", *[user for user in USERS for _ in range(BURST)])
    return {worker: workers.start(work, server.port, worker, pause_at) for worker in WORKERS}


def finish(workers, client):
    """Waits for the end of all work, and gives each user's log."""
    wait_for(lambda: client.get("done") == str(len(USERS) * len(REQUESTS)), "all requests are done", 100)
    client.rpush("tickets", *["stop"] * len(workers))
    workers.join()
    log = {}
    for user in USERS:
        lines = [Entry(*line.split()) for line in client.lrange(f"log:{user}", 0, -1)]
        log[user] = [line._replace(fence=int(line.fence), time=float(line.time)) for line in lines]
    return log


def serial(requests):
    """What the log of one user has to say."""
    return [(event, request) for request in requests for event in ("begin", "end")]


def said(entries):
    return [(entry.event, entry.request) for entry in entries]


@pytest.mark.crowd
def test_one_at_a_time_and_in_order(server, workers):
    with server.connect() as client:
        start(server, workers, client)
        log = finish(workers, client)
    for user in USERS:
        assert said(log[user]) == serial(REQUESTS), user


@pytest.mark.crowd
def test_killed_workers_neither_stall_nor_spoil_the_others(server, workers):
    user, request = USERS[7], REQUESTS[50]
    key = f"lock:{user}"
    with server.connect() as client, client.pubsub() as grants:
        client.config_set("notify-keyspace-events", "KA")
        grants.psubscribe("__keyspace@0__:lock:*", "end")
        processes = start(server, workers, client, pause_at=(user, request))

        def kill(worker):
            workers.remove(processes[worker])
            processes[worker].kill()
            processes[worker].join()
            assert client.lmove(f"tickets:{worker}", "tickets") == user

        def queue():
            now = pairs(client.execute_command("LOCK.INFO", key, "FULL"))
            assert now, "nobody holds the lock"
            return [pairs(waiter)["client-id"] for waiter in now["queue"]]

        holder = wait_for(lambda: client.get("paused"), "the holder stands still")
        waiting = wait_for(lambda: len(queue()) > 2 and queue(), "some wait for it")[0]
        waiter = client.client_list(client_id=[waiting])[0]["name"]
        kill(waiter)
        wait_for(lambda: waiting not in queue(), "the dead one has left the queue")
        kill(holder)
        log = finish(workers, client)

        acquired = 0
        client.publish("end", "")
        for message in grants.listen():
            if message["type"] == "pmessage" and message["channel"] == "end":
                break
            acquired += message["data"] == "lock.acquired"

    # All is done once and in order; what the dead holder had begun was begun once more by another.
    began = said(log[user]).index(("begin", request))
    assert log[user][began].worker == holder
    assert said(log[user]) == serial(REQUESTS[:50]) + [("begin", request)] + serial(REQUESTS[50:])
    for other in USERS:
        assert other == user or said(log[other]) == serial(REQUESTS), other

    # After the dead holder's lease, and not before, its lock went on to the living.
    stalled = log[user][began + 1].time - log[user][began].time
    assert LEASE - 1 < stalled < LEASE + SLACK
    assert all(entry.worker not in (holder, waiter) for entry in log[user][began + 1 :])

    # The whole never stood still for longer either.
    times = sorted(entry.time for entries in log.values() for entry in entries)
    assert max(later - earlier for earlier, later in zip(times, times[1:])) < LEASE + SLACK

    # Every grant went to a worker that lived to begin its work, each user's under rising fences.
    begins = [entry for entries in log.values() for entry in entries if entry.event == "begin"]
    assert acquired == len(begins) == len(USERS) * len(REQUESTS) + 1
    for entries in log.values():
        fences = [entry.fence for entry in entries if entry.event == "begin"]
        assert fences == sorted(set(fences))
