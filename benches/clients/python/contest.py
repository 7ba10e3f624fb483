"""One of several clients that want one lock; benches/compare/clients.rs starts them and puts together what they say.

contest.py PORT redislock|library SECONDS says "ready", waits for a line, contends for so long, and prints a line for each
grant: when it came, in ns of the one clock that all processes read.
"""

import sys
import time
from uuid import uuid4

from redis import Redis

KEY, LEASE = "contested", 30
client = Redis("127.0.0.1", int(sys.argv[1]), socket_timeout=None)
grants = []


def redislock():
    owner = str(uuid4())
    grant = client.execute_command("LOCK.ACQUIRE", KEY, "OWNER", owner, "PX", LEASE * 1000, "BLOCK", 0, "ONCE")
    now = time.monotonic_ns()
    client.execute_command("LOCK.RELEASE", KEY, owner, "FENCE", grant[1])
    return now


def library():
    lock = client.lock(KEY, timeout=LEASE)
    with lock:
        now = time.monotonic_ns()
    # It has had its turn, and waits as the others do: asking at once, it would nearly always get the lock again.
    time.sleep(lock.sleep)
    return now


turn = {"redislock": redislock, "library": library}[sys.argv[2]]
client.ping()
print("ready", flush=True)
sys.stdin.readline()
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    grants.append(turn())
print(*grants, sep="\n")
