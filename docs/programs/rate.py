import os
from concurrent.futures import ThreadPoolExecutor

import redis
from redislock import Locks


def call(locks, service, request):
    """Calls the service in one of four places. The place has a number."""
    with locks.lock("geocoder", limit=4, session=True, wait=30) as held:
        locks.lock("geocoder:rate", limit=10, lease=1, renew=False, wait=30).acquire()  # lapses after a second
        return service(request, held)


if __name__ == "__main__":
    client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379"))
    locks = Locks(client)
    with ThreadPoolExecutor(8) as threads:
        said = "call {0} in place {1.slot}, held with fence {1.fence}".format
        print(*threads.map(lambda request: call(locks, said, request), range(12)), sep="\n")
