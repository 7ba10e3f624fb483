"""Starts real servers on free ports: single ones, sentinels, a cluster. As a program, it serves ../../lib.sh."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from resp import Connection


def until(condition, what, seconds=60):
    """Waits until the condition is true, and returns its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.005)
    return value


def hold_port():
    """Reserves a port, also while its server is down, with a socket that never listens: Linux lets sockets with SO_REUSEADDR share a port
    as long as at most one of them listens."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held, held.getsockname()[1]


class Server:
    def __init__(self, folder, *options, module=True, sentinel=None):
        self.folder, self.options, self.module, self.sentinel = folder, options, module, sentinel
        self.process = self.connection = None
        self.held, self.port = hold_port()
        self.held_bus, self.bus = hold_port()
        folder.mkdir(parents=True)
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        if self.connection:
            self.connection.close()
            self.connection = None
        words = ["--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder, "--logfile", self.folder / "log"]
        if self.sentinel:
            conf = self.folder / "sentinel.conf"
            conf.write_text("\n".join([f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder}", f"logfile {self.folder}/log",
                                       "sentinel resolve-hostnames no", *self.sentinel]) + "\n")
            words = [conf, "--sentinel"]
        else:
            words += ["--save", "", "--cluster-port", self.bus, *self.options]
            words += ["--loadmodule", os.environ["REDISLOCK_SO"]] if self.module else []
        self.process = subprocess.Popen([os.environ["REDISLOCK_SERVER"], *map(str, words)], stdout=subprocess.DEVNULL)
        until(lambda: self.process.poll() is not None or self.answers(), "the server answers")
        assert self.process.poll() is None, f"the server ended at once:\n{self.log()}"

    def answers(self):
        try:
            connection = Connection(self.port)
            if connection.info("persistence").get("loading", "0") != "0":
                connection.close()
                return False
        except OSError:
            return False
        self.connection = connection
        return True

    def __call__(self, *words):
        return self.connection(*words)

    def lock(self, key):
        """The reply of LOCK.INFO, or None if the lock is free."""
        return self.connection.fields("LOCK.INFO", key)

    def waiters(self, key):
        return (self.lock(key) or {}).get("waiters", 0)

    def calls(self, command):
        """How often clients have sent this command. After Redis 7.0, servers count a waiting command when its wait is over."""
        line = self.connection.info("commandstats").get(f"cmdstat_{command.lower()}", "calls=0,")
        calls = int(line.split("=")[1].split(",")[0])
        about = self.connection.info("server")
        if command == "lock.acquire" and ("valkey_version" in about or not about["redis_version"].startswith("7.0.")):
            calls += int(self.connection.info("clients")["blocked_clients"])
        return calls

    def log(self):
        log = self.folder / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    def kill(self):
        self.process.kill()
        self.process.wait()


def sentinels(folder, name, first, start):
    """Starts a replica of the first server, and a sentinel that watches both. Returns replica and sentinel."""
    replica = start(folder / "replica", "--replicaof", "127.0.0.1", first.port)
    until(lambda: replica.connection.info("replication")["master_link_status"] == "up", "the replica follows")
    watched = [f"sentinel monitor {name} 127.0.0.1 {first.port} 1", f"sentinel down-after-milliseconds {name} 1000",
               f"sentinel failover-timeout {name} 5000"]
    sentinel = start(folder / "sentinel", module=False, sentinel=watched)
    until(lambda: len(sentinel("SENTINEL", "REPLICAS", name)) == 1, "the sentinel knows the replica")
    return replica, sentinel


def cluster(folder, start, count):
    """Starts a cluster of this many nodes, which share the slots evenly."""
    nodes = [start(folder / str(at), "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1") for at in range(count)]
    for at, node in enumerate(nodes):
        node("CLUSTER", "ADDSLOTSRANGE", at * 16384 // count, (at + 1) * 16384 // count - 1)
        node("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
    for node in nodes[1:]:
        node("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
    for node in nodes:
        until(lambda: "cluster_state:ok" in node("CLUSTER", "INFO") and f"cluster_known_nodes:{count}\r" in node("CLUSTER", "INFO")
              and len(node("CLUSTER", "SLOTS")) == count, "the cluster is whole")
    return nodes


def join(nodes, start, folder):
    """Adds a node without slots to the cluster, and waits until all nodes know it."""
    node = start(folder, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
    node("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
    name = node("CLUSTER", "MYID")
    for each in nodes:
        until(lambda: any(name in line and "handshake" not in line for line in each("CLUSTER", "NODES").splitlines()), "it is known")
    until(lambda: "cluster_state:ok" in node("CLUSTER", "INFO"), "it knows the cluster")
    return node


def replicas_of(nodes, start, folder):
    """Adds a replica for each node."""
    replicas = [join(nodes, start, folder / f"replica-{at}") for at in range(len(nodes))]
    for node, replica in zip(nodes, replicas):
        name = node("CLUSTER", "MYID")
        until(lambda: name in replica("CLUSTER", "NODES"), "it knows its primary")
        replica("CLUSTER", "REPLICATE", name)
    for replica in replicas:
        until(lambda: replica.connection.info("replication").get("master_link_status") == "up", "the replica follows")
    return replicas


def move_slot(key, source, target, ends=True):
    """Moves the key's slot to another node, with all its keys."""
    slot = source("CLUSTER", "KEYSLOT", key)
    names = source("CLUSTER", "MYID"), target("CLUSTER", "MYID")
    target("CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])
    source("CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])
    while keys := source("CLUSTER", "GETKEYSINSLOT", slot, 100):
        source("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    for node in (target, source) if ends else ():
        node("CLUSTER", "SETSLOT", slot, "NODE", names[1])


def main(folder, count, *kinds):
    """Starts servers for a script, writes their addresses as variables of a shell, and runs until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    started = []

    def start(*given):
        started.append(Server(*given))
        return started[-1]

    try:
        urls = [start(Path(folder) / str(at), "--notify-keyspace-events", "KA").url for at in range(int(count))]
        print(f"REDIS_URLS={' '.join(urls)}\nREDIS_URL={urls[0]}\nREDIS_PORT={started[0].port}")
        for kind in kinds:
            print(f"{kind.upper()}_URL={cluster(Path(folder) / kind, start, 1)[0].url}")
        for server in started:
            server.connection.close()  # tests count who is connected
        print(flush=True)
        signal.pause()
    finally:
        for server in started:
            server.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
