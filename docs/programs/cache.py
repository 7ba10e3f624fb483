import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import redis
from redislock import Locks


class Cache:
    """A folder of files. Many read it at a time; one rebuilds it when it is too old."""

    def __init__(self, locks, folder, build, max_age_s=60):
        self.locks, self.folder, self.build, self.max_age_s = locks, Path(folder), build, max_age_s
        self.key = f"cache:{self.folder.name}"
        self.newest = 0  # the greatest fence of a writer that we have seen

    def read(self):
        with self.locks.lock(self.key, shared=True):  # together with other readers
            parts = self._load()
        if parts is None:
            with self.locks.lock(self.key) as held:  # alone
                parts = self._load()  # somebody else may have been first
                if parts is None:
                    parts = self._rebuild(held.fence)
        return parts

    def _load(self):
        """None: to be built, or built anew."""
        try:
            index = json.loads(self._file("index").read_text())
            files = [json.loads(self._file(number).read_text()) for number in range(index["parts"])]
        except (FileNotFoundError, ValueError):  # not there yet, or half a file
            return None
        fences = {file["fence"] for file in [index, *files]}
        if len(fences) != 1 or index["built"] < time.time() - self.max_age_s:
            return None
        [fence] = fences
        if fence < self.newest:  # of a writer whose lease was over
            return None
        self.newest = fence
        return {file["name"]: file["rows"] for file in files}

    def _rebuild(self, fence):
        parts = self.build(fence)
        for number, (name, rows) in enumerate(parts.items()):
            self._file(number).write_text(json.dumps({"name": name, "rows": rows, "fence": fence}))
        # Last: from now on the cache is whole.
        self._file("index").write_text(json.dumps({"parts": len(parts), "fence": fence, "built": time.time()}))
        self.newest = fence
        return parts

    def _file(self, name):
        return self.folder / f"{name}.json"


if __name__ == "__main__":
    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    locks = Locks(redis.Redis.from_url(url))

    def build(fence):
        print("rebuilt, with the lock held under fence", fence)
        return {"eur": [1.10, 2.20], "usd": [1.21, 2.42]}

    with TemporaryDirectory() as folder, ThreadPoolExecutor(100) as readers:
        cache = Cache(locks, folder, build)
        prices = list(readers.map(lambda _: cache.read(), range(1000)))
        print(len(prices), "reads, all the same:", prices.count(prices[0]) == len(prices))
