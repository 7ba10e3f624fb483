// The programs of the docs, over RESP2 and RESP3: they wait, exclude, and always give the lock back.
import assert from "node:assert/strict";
import { createClient } from "redis";
import { openLocks as openIoredis } from "./docs/locks.mjs";
import { openLocks as openNodeRedis } from "./docs/locks-node-redis.mjs";
import { connect, info, testWithServer, waitFor } from "./support.mjs";

const ioredis = (options) => async (port) => {
  const client = connect(port, options);
  const { withLock, close } = await openIoredis(client);
  return { withLock, end: () => (close(), client.disconnect()) };
};

const nodeRedis = (RESP) => async (port) => {
  const client = await createClient({ socket: { host: "127.0.0.1", port }, RESP }).on("error", () => {}).connect();
  const subscriber = await client.duplicate().on("error", () => {}).connect();
  const { withLock, close } = await openNodeRedis((...words) => client.sendCommand(words), subscriber);
  return { withLock, end: async () => (await close(), [client, subscriber].forEach((one) => one.destroy())) };
};

const clients = {
  "ioredis, RESP2": ioredis({ protocol: 2 }),
  "ioredis, RESP3": ioredis({ protocol: 3 }),
  "ioredis, RESP3 with its types": ioredis({ protocol: 3, replyMapping: "resp3" }),
  "node-redis, RESP2": nodeRedis(2),
  "node-redis, RESP3": nodeRedis(3),
};

const tryAcquire = (client) => client.call("LOCK.ACQUIRE", "door", "OWNER", "other", "PX", 60_000);

for (const [name, open] of Object.entries(clients)) {
  const testWithLocks = (title, body) =>
    testWithServer(`${title} (${name})`, async (scene) => {
      const locks = await open(scene.port);
      try {
        await body(locks.withLock, scene);
      } finally {
        await locks.end();
      }
    });

  testWithLocks("the lock is held for the body and free after it", async (withLock, scene) => {
    const other = scene.connect();
    const fence = await withLock("door", async (fence) => {
      assert.equal(await tryAcquire(other), null);
      const now = await info(other, "door");
      assert.deepEqual([now.fence, now.holds, now.waiters], [fence, 1, 0]);
      assert(0 < now["lease-ms"] && now["lease-ms"] <= 10_000);
      return fence;
    }, { leaseMs: 10_000 });
    const [owner, nextFence, holds, lease] = await tryAcquire(other);
    assert.deepEqual([owner, holds, lease], ["other", 1, 60_000]);
    assert(nextFence > fence);
  });

  testWithLocks("an exception gives the lock back", async (withLock, scene) => {
    const other = scene.connect();
    const body = async () => {
      assert.equal(await tryAcquire(other), null);
      throw new RangeError("of the body");
    };
    await assert.rejects(withLock("door", body), RangeError);
    assert(await tryAcquire(other));
  });

  testWithLocks("it waits for its turn, behind another process too", async (withLock, scene) => {
    const other = scene.connect();
    const elsewhere = await open(scene.port);
    const entered = [];
    try {
      let second;
      await withLock("door", async () => {
        second = elsewhere.withLock("door", async () => entered.push("second"));
        await waitFor(async () => (await info(other, "door")).waiters === 1, "the other one waits");
        entered.push("first");
      });
      await second;
    } finally {
      await elsewhere.end();
    }
    assert.deepEqual(entered, ["first", "second"]);
  });

  testWithLocks("a lock that lapsed meanwhile does not go unnoticed", async (withLock, scene) => {
    const other = scene.connect();
    const body = () => waitFor(() => tryAcquire(other), "the lease lapses");
    await assert.rejects(withLock("door", body, { leaseMs: 50 }), /NOTHELD /);
  });
}
