// The function of the docs, over RESP2 and RESP3: it waits, excludes, and always gives the lock back.
import assert from "node:assert/strict";
import { info, testWithServer, waitFor, withLock } from "./support.mjs";

const tryAcquire = (client) => client.call("LOCK.ACQUIRE", "door", "OWNER", "other", "PX", 60_000);

for (const options of [{ protocol: 2 }, { protocol: 3 }, { protocol: 3, replyMapping: "resp3" }]) {
  const testWithClients = (name, body) =>
    testWithServer(`${name} (${Object.values(options)})`, (scene) =>
      body(scene.connect(options), scene.connect(options)));

  testWithClients("the lock is held for the body and free after it", async (client, other) => {
    const fence = await withLock(client, "door", async (fence) => {
      assert.equal(await tryAcquire(other), null);
      const now = await info(other, "door");
      assert.deepEqual([now.fence, now.holds, now.waiters], [fence, 1, 0]);
      assert(0 < now["lease-ms"] && now["lease-ms"] <= 10_000);
      return fence;
    });
    const [owner, nextFence, holds, lease] = await tryAcquire(other);
    assert.deepEqual([owner, holds, lease], ["other", 1, 60_000]);
    assert(nextFence > fence);
  });

  testWithClients("an exception gives the lock back", async (client, other) => {
    const body = async () => {
      assert.equal(await tryAcquire(other), null);
      throw new RangeError("of the body");
    };
    await assert.rejects(withLock(client, "door", body), RangeError);
    assert(await tryAcquire(other));
  });

  testWithClients("it waits for its turn", async (client, other) => {
    const entered = [];
    let second;
    await withLock(client, "door", async () => {
      second = withLock(other, "door", async () => entered.push("second"));
      await waitFor(async () => (await info(client, "door")).waiters === 1, "the other one waits");
      entered.push("first");
    });
    await second;
    assert.deepEqual(entered, ["first", "second"]);
  });

  testWithClients("it waits no longer than asked", async (client, other) => {
    const body = () => assert.fail("two have the lock");
    const attempt = () => assert.rejects(withLock(client, "door", body, { waitMs: 20 }), /door is another's/);
    await withLock(other, "door", attempt, { leaseMs: 60_000 });
  });

  testWithClients("a lost lock does not go unnoticed", async (client, other) => {
    const body = () => waitFor(() => tryAcquire(other), "the lease lapses");
    await assert.rejects(withLock(client, "door", body, { leaseMs: 50 }), /^ReplyError: NOTHELD /);
  });

  testWithClients("a lost lock does not hide what went wrong in the body", async (client, other) => {
    const body = async () => {
      await waitFor(() => tryAcquire(other), "the lease lapses");
      throw new RangeError("of the body");
    };
    await assert.rejects(withLock(client, "door", body, { leaseMs: 50 }), RangeError);
  });
}
