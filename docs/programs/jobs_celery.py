import os

import celery
import redis
import redislock

url = os.environ.get("REDIS_URL", "redis://localhost:6379")
app = celery.Celery("jobs", broker=url)
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1)
locks = redislock.Locks(redis.Redis.from_url(url))


def work(customer, fence):
    print("customer", customer, "held with fence", fence)


@app.task(autoretry_for=(redislock.NotAcquired,), max_retries=None, default_retry_delay=1)
def job(customer):
    with locks.lock(f"customer:{customer}", wait=5) as held:
        work(customer, held.fence)
