#!/usr/bin/env python3
"""Moves money between accounts under a lock, by processes that are frozen past their lease and killed in the middle of it.

Each transfer reads two balances, thinks, and writes both, as programs do that compute in their own memory. What is written
late undoes what others wrote meanwhile, and the sum comes out wrong. There are four ways to guard against that:

    none     nothing but the lock: two rows of PostgreSQL
    late     PostgreSQL compares the fence, but only in the transaction that writes
    fence    PostgreSQL compares the fence in the transaction that reads, and again in the one that writes
    watch    the balances are on the lock's server, and are written in a transaction that watches the lock

    money.py ROUNDS [GUARD...]      for each guard; a round in three kills a worker, the others freeze one

It fails if the sum is wrong with `fence` or `watch`. Whether a late write meets another one is a matter of chance, so the trial
with `none` goes on until the sum is wrong. If it is right after ten times as many rounds, the trial fails: it shows nothing.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import psycopg
from redis import Redis, WatchError
from redis.exceptions import ResponseError

ACCOUNTS = 6
BALANCE = 1000
WORKERS = 4
LEASE_MS = 150
LOCK = "{bank}:lock"
DATA = "{bank}:balances"
PATIENCE = 60  # s
# A worker that is frozen inside a transaction holds its rows' locks, and stops the bank until PostgreSQL ends its session.
IDLE_MS = 100


class Lost(Exception):
    """The guard refused, or PostgreSQL ended the session: nothing was written."""


class Postgres:
    """Balances in PostgreSQL, with the fence compared on those occasions."""

    def __init__(self, when_read, when_written):
        self.when_read, self.when_written = when_read, when_written
        self.connect()

    def connect(self):
        self.base = psycopg.connect(os.environ["POSTGRES"], options=f"-c idle_in_transaction_session_timeout={IDLE_MS}")

    @contextmanager
    def transaction(self):
        try:
            with self.base.transaction():
                yield
        except psycopg.Error:
            if not self.base.closed:
                raise
            self.connect()
            raise Lost from None

    def lay_out(self):
        with psycopg.connect(os.environ["POSTGRES"]) as base:
            base.execute("DROP TABLE IF EXISTS accounts, fences")
            base.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL)")
            base.execute("CREATE TABLE fences (name text PRIMARY KEY, fence bigint NOT NULL)")
            base.execute("INSERT INTO accounts SELECT id, %s FROM generate_series(1, %s) id", (BALANCE, ACCOUNTS))
            base.execute("INSERT INTO fences VALUES ('bank', 0)")

    def show(self, fence):
        """Raises Lost if the resource has seen a greater fence."""
        changed = self.base.execute("UPDATE fences SET fence = %s WHERE name = 'bank' AND fence <= %s", (fence, fence))
        if changed.rowcount == 0:
            raise Lost

    def read(self, fence, ids):
        with self.transaction():
            if self.when_read:
                self.show(fence)
            rows = self.base.execute("SELECT id, balance FROM accounts WHERE id = ANY(%s)", (list(ids),))
            return dict(rows.fetchall())

    def write(self, fence, balances):
        with self.transaction():
            if self.when_written:
                self.show(fence)
            for account, balance in balances.items():
                self.base.execute("UPDATE accounts SET balance = %s WHERE id = %s", (balance, account))

    def sum(self):
        with psycopg.connect(os.environ["POSTGRES"]) as base:
            return base.execute("SELECT sum(balance) FROM accounts").fetchone()[0]


class OnTheLocksServer:
    """Balances beside the lock."""

    def __init__(self):
        self.server = connect()

    def lay_out(self):
        self.server.delete(DATA)
        self.server.hset(DATA, mapping=dict.fromkeys(range(1, ACCOUNTS + 1), BALANCE))

    def read(self, _, ids):
        return dict(zip(ids, map(int, self.server.hmget(DATA, *ids))))

    def write(self, fence, balances):
        """As in docs/safety.md."""
        with self.server.pipeline(transaction=True) as pipe:
            while True:
                try:
                    pipe.watch(LOCK)
                    if fence_of(pipe.execute_command("LOCK.INFO", LOCK)) != fence:
                        raise Lost
                    pipe.multi()
                    pipe.hset(DATA, mapping=balances)
                    return pipe.execute()
                except WatchError:
                    pass

    def sum(self):
        return sum(map(int, self.server.hvals(DATA)))


GUARDS = {
    "none": lambda: Postgres(False, False),
    "late": lambda: Postgres(False, True),
    "fence": lambda: Postgres(True, True),
    "watch": OnTheLocksServer,
}


def connect():
    return Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, socket_timeout=PATIENCE)


def info(server):
    reply = server.execute_command("LOCK.INFO", LOCK)
    return dict(zip(reply[::2], reply[1::2])) if isinstance(reply, list) else reply


def fence_of(reply):
    if isinstance(reply, list):
        reply = dict(zip(reply[::2], reply[1::2]))
    return reply and reply["fence"]


def work(guard, seed):
    """A worker: transfers until it is ended."""
    chance = random.Random(seed)
    server, bank = connect(), GUARDS[guard]()
    turn = 0
    while True:
        turn += 1
        grant = server.execute_command(
            "LOCK.ACQUIRE", LOCK, "OWNER", f"{os.getpid()}-{turn}", "PX", LEASE_MS, "BLOCK", PATIENCE * 1000
        )
        owner, fence = grant[0], grant[1]
        giver, taker = chance.sample(range(1, ACCOUNTS + 1), 2)
        amount = chance.randint(1, 50)
        try:
            balances = bank.read(fence, (giver, taker))
            time.sleep(chance.uniform(0.001, 0.010))  # thinks
            balances[giver] -= amount
            balances[taker] += amount
            bank.write(fence, balances)
            server.incr("transfers")
        except Lost:
            server.incr("refused")
        try:
            server.execute_command("LOCK.RELEASE", LOCK, owner, "FENCE", fence)
        except ResponseError as error:
            if not str(error).startswith("NOTHELD"):
                raise


def wait_for(condition):
    """The condition's value, as soon as it is one."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > end:
            sys.exit("waited in vain")
        time.sleep(0.001)
    return value


def stopped(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(") ", 1)[1][0] == "T"


def trial(guard, rounds, seed):
    """Moves money, and disturbs that; how much is missing or too much at the end."""
    chance = random.Random(seed)
    server, bank = connect(), GUARDS[guard]()
    server.delete("transfers", "refused", LOCK)
    bank.lay_out()
    workers = {}

    def start():
        process = subprocess.Popen([sys.executable, __file__, "--worker", guard, str(chance.getrandbits(32))])
        workers[process.pid] = process

    def holder():
        """The worker that holds the lock, and its fence."""
        found = info(server)
        pid = int(found["owner"].split("-")[0]) if found else None
        return (pid, found["fence"]) if pid in workers else None

    def count(name):
        return int(server.get(name) or 0)

    def off():
        return bank.sum() - ACCOUNTS * BALANCE

    began, kills, freezes, frozen_holders = time.monotonic(), 0, 0, 0
    for _ in range(WORKERS):
        start()
    try:
        at_most = 10 * rounds if guard == "none" else rounds
        for round in range(at_most):
            if round >= rounds and off() != 0:
                break
            pid, fence = wait_for(holder)
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: stopped(pid))
            if round % 3 == 2:
                os.kill(pid, signal.SIGKILL)
                workers.pop(pid).wait()
                kills += 1
                start()
                continue
            freezes += 1
            # It may have released the lock just before. Until its lease is over and somebody else has the lock.
            frozen_holders += bool((now := info(server)) and now["fence"] == fence)
            wait_for(lambda: (now := info(server)) and now["fence"] != fence and now["owner"].split("-")[0] != str(pid))
            # It wakes up beside a holder that has just read, or after some transfers.
            later = count("transfers") + chance.choice((0, 0, 1, 5))
            wait_for(lambda: count("transfers") >= later)
            os.kill(pid, signal.SIGCONT)
            done = count("transfers") + count("refused") + 3
            wait_for(lambda: count("transfers") + count("refused") >= done)
    finally:
        for process in workers.values():
            process.kill()
            process.wait()
    result = off()
    print(
        f"figure: money, {guard}: {count('transfers')} transfers, {freezes} freezes ({frozen_holders} of a holder), {kills} kills, "
        f"{count('refused')} refused, off by {result}, in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return result


def main(freezes, *guards):
    seed = int(os.environ.get("REDISLOCK_SEED") or random.getrandbits(32))
    print(f"seed: REDISLOCK_SEED={seed}", flush=True)
    off = {guard: trial(guard, int(freezes), seed) for guard in guards or GUARDS}
    wrong = [guard for guard in ("fence", "watch") if off.get(guard)]
    if wrong:
        sys.exit(f"error: the sum is wrong with {', '.join(wrong)}")
    if off.get("none") == 0:
        sys.exit("error: the sum is right without a guard: the trial shows nothing")


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        work(sys.argv[2], sys.argv[3])
    main(*sys.argv[1:])
