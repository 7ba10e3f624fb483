import os

import redis
import redislock
import rq

client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379"))
queue, locks = rq.Queue(connection=client), redislock.Locks(client)


def work(customer, fence):
    print("customer", customer, "held with fence", fence)


def job(customer):
    with locks.lock(f"customer:{customer}", wait=5) as held:
        work(customer, held.fence)


def enqueue(customer):
    queue.enqueue(job, customer, retry=rq.Retry(max=100))
