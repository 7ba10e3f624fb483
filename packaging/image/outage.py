"""Puts load on the group while its primary ends. Prints `running` once locks are granted; at the end, for how long nobody could lock, and
how many grants were lost.

Workers acquire and release locks of their own, each time with a new owner. Meanwhile, another worker takes one lock after the other for ten
minutes and keeps them: those that the next primary does not know are lost grants. It ends when another primary has granted locks for five
seconds."""

import sys
import threading
import time
import uuid

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

WORKERS = 8
TIMEOUT = 0.5


class Load:
    def __init__(self):
        self.lock = threading.Lock()
        self.granted = []  # (when the answer came, run id of the server)
        self.kept = {}  # lock: (owner, fence)
        self.errors = {}  # text: (when it was first seen, when last, how often)
        self.stop = threading.Event()

    def connect(self):
        sentinel = Sentinel([("locks-sentinel", 26379)], socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)
        host, port = sentinel.discover_master("locks")
        return redis.Redis(
            host=host, port=port, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT,
            single_connection_client=True, retry=Retry(NoBackoff(), 0), decode_responses=True,
        )

    def work(self, number):
        client = server = None
        while not self.stop.is_set():
            try:
                if client is None:
                    client = self.connect()
                    server = client.info("server")["run_id"]
                owner = str(uuid.uuid4())
                name = f"job:{number}:{owner}" if number < 2 else f"job:{number}"
                grant = client.execute_command("LOCK.ACQUIRE", name, "OWNER", owner, "PX", 600_000 if number < 2 else 1_000)
                if grant is None:
                    continue
                with self.lock:
                    self.granted.append((time.monotonic(), server))
                    if number < 2:
                        self.kept[name] = (owner, grant[1])
                if number >= 2:
                    client.execute_command("LOCK.RELEASE", name, owner)
            except (redis.RedisError, OSError) as error:
                now, text = time.monotonic(), str(error)[:60]
                with self.lock:
                    first, _, times = self.errors.get(text, (now, now, 0))
                    self.errors[text] = first, now, times + 1
                client = None
                time.sleep(0.01)


def main():
    load = Load()
    threads = [threading.Thread(target=load.work, args=(number,), daemon=True) for number in range(WORKERS)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    with load.lock:
        first = load.granted[-1][1]
    print("running", flush=True)

    def of_others():
        with load.lock:
            return next((when for when, server in load.granted if server != first), None)

    end = time.monotonic() + 120
    while of_others() is None and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(5)
    load.stop.set()
    for thread in threads:
        thread.join()

    times = sorted(when for when, _ in load.granted)
    gap = max(later - earlier for earlier, later in zip(times, times[1:]))
    end = max(when for when, server in load.granted if server == first)
    for text, (begin, last, often) in load.errors.items():
        print(f"  {begin - end:.2f} to {last - end:.2f} s after the last grant: {often} x {text}", file=sys.stderr)
    client = load.connect()
    lost = sum(1 for name, (owner, _) in load.kept.items() if owner not in str(client.execute_command("LOCK.INFO", name)))
    before = sum(1 for _, server in load.granted if server == first)
    print(
        f"nobody could lock for {gap:.2f} s; {lost} of {len(load.kept)} grants that were kept are lost; "
        f"{before} grants before, {len(times) - before} after",
        flush=True,
    )


main()
