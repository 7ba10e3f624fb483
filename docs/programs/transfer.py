import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import redis
from redislock import Locks


class Accounts:
    """A folder with a file for each account."""

    def __init__(self, locks, folder):
        self.locks, self.folder = locks, Path(folder)

    def transfer(self, source, target, amount):
        with self.locks.lock(f"account:{source}", f"account:{target}") as held:
            self.move(source, target, amount, held.fence)
        return held.fence

    def move(self, source, target, amount, fence):
        accounts = {name: self._load(name) for name in (source, target)}
        if any(account["fence"] > fence for account in accounts.values()):
            raise RuntimeError("late: a newer transfer was here")
        accounts[source]["balance"] -= amount
        accounts[target]["balance"] += amount
        for name, account in accounts.items():
            self._store(name, account["balance"], fence)

    def open(self, name, balance):
        self._store(name, balance, 0)

    def balance(self, name):
        return self._load(name)["balance"]

    def fence(self, name):
        return self._load(name)["fence"]

    def _load(self, name):
        return json.loads((self.folder / name).read_text())

    def _store(self, name, balance, fence):
        (self.folder / name).write_text(json.dumps({"balance": balance, "fence": fence}))


if __name__ == "__main__":
    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    locks = Locks(redis.Redis.from_url(url))
    with TemporaryDirectory() as folder, ThreadPoolExecutor(50) as threads:
        accounts, names = Accounts(locks, folder), ["ann", "bea", "cem"]
        for name in names:
            accounts.open(name, 100)
        pairs = [(source, target) for source in names for target in names if source != target] * 50
        fences = list(threads.map(lambda pair: accounts.transfer(*pair, 1), pairs))
        print(len(fences), "transfers, the last one held with fence", max(fences))
        print("together:", sum(map(accounts.balance, names)))
