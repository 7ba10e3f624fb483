"""Tests the lock over several servers of docs/redlock.md: 5 servers, 3 clients, and servers that are killed."""

import json
import os
import time

import pytest
from redlock import NotLocked, Redlock, connect

from support import Server, wait_for


@pytest.fixture
def servers(tmp_path, server):
    """Five servers: the one of the fixture, whose time limit applies, and four more."""
    servers = [server]
    try:
        for name in "bcde":
            servers.append(Server(tmp_path / name))
        yield servers
    finally:
        for each in servers:
            each.kill()


def lock(ports, wait_s=100):
    return Redlock([connect(f"redis://127.0.0.1:{port}") for port in ports], "job", wait_s=wait_s)


def work(ports, folder):
    """5 jobs, 3 of them after servers were killed. A job fails if it does not have the file to itself."""
    mine = lock(ports)
    for job in range(5):
        if job == 2:
            wait_for((folder / "killed").exists, "servers are killed", 100)
        with mine:
            os.close(os.open(folder / "at work", os.O_CREAT | os.O_EXCL))
            time.sleep(0.005)  # give the others time to break in
            with mine:  # enters the lock again
                mine.extend()
            os.unlink(folder / "at work")
            with open(folder / "done", "a") as done:
                print(json.dumps(mine.fences), file=done)


def test_it_outlives_two_of_five_servers_and_tells_when_three_are_gone(servers, workers, tmp_path):
    ports = [server.port for server in servers]
    done = tmp_path / "done"
    done.touch()
    for _ in range(3):
        workers.start(work, ports, tmp_path)
    wait_for(lambda: len(done.read_text().splitlines()) >= 4, "some jobs are done", 100)
    for server in servers[:2]:
        server.kill()
    (tmp_path / "killed").touch()
    workers.join()

    grants = [json.loads(line) for line in done.read_text().splitlines()]
    assert len(grants) == 15
    assert set(grants[-1]) == {"2", "3", "4"}
    # Any two holders share a server, where the later one has the greater fence.
    for earlier, later in zip(grants, grants[1:]):
        shared = earlier.keys() & later.keys()
        assert shared and all(earlier[at] < later[at] for at in shared)

    servers[2].kill()
    for _ in range(3):
        with pytest.raises(NotLocked, match="2 of 5 servers|1 of 5 servers"), lock(ports, wait_s=0.3):
            pytest.fail("two servers are no majority")


def test_a_holder_is_told_that_the_lock_was_lost(servers):
    ports = [server.port for server in servers[:3]]
    clients = [server.connect() for server in servers[:3]]
    mine = lock(ports)
    with mine:
        clients[0].execute_command("LOCK.BREAK", "job")
        mine.extend()
    with pytest.raises(NotLocked, match="lost meanwhile"), mine:
        for client in clients[:2]:
            client.execute_command("LOCK.BREAK", "job")
        with pytest.raises(NotLocked, match="not extended"):
            mine.extend()
    with pytest.raises(ZeroDivisionError), mine:
        for client in clients[:2]:
            client.execute_command("LOCK.BREAK", "job")
        1 / 0


def test_one_that_waits_in_vain_leaves_nothing_behind(servers):
    clients = [server.connect() for server in servers]
    for client in clients[:3]:
        client.execute_command("LOCK.ACQUIRE", "job", "OWNER", "other")
    with pytest.raises(NotLocked, match="2 of 5 servers"), lock([server.port for server in servers], wait_s=0):
        pytest.fail("two have the lock")
    assert [client.exists("job") for client in clients] == [1, 1, 1, 0, 0]
