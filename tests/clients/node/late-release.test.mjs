// The classic mistake: a holder that is too late deletes the next holder's lock. Here it is told NOTHELD.
import assert from "node:assert/strict";
import { info, testWithServer, waitFor } from "./support.mjs";

const acquire = (client, owner, leaseMs) =>
  client.call("LOCK.ACQUIRE", "job", "OWNER", owner, "PX", leaseMs, "BLOCK", 0);

async function assertHeld(client, owner, fence) {
  const now = await info(client, "job");
  assert.deepEqual([now.owner, now.fence, now.holds], [owner, fence, 1]);
}

testWithServer("the next owner keeps the lock", async (scene) => {
  const [a, b] = [scene.connect(), scene.connect()];
  await acquire(a, "A", 50);
  const [, fence] = await acquire(b, "B", 60_000); // waits until A's lease lapses
  await assert.rejects(a.call("LOCK.RELEASE", "job", "A"), /^ReplyError: NOTHELD /);
  await assertHeld(a, "B", fence);
  assert.equal(await b.call("LOCK.RELEASE", "job", "B"), 0);
  assert.equal(await info(a, "job"), null);
});

testWithServer("the same owner's next grant is safe from an old fence", async (scene) => {
  const [a, b] = [scene.connect(), scene.connect()];
  const [, old] = await acquire(a, "A", 50);
  await waitFor(async () => (await info(b, "job")) === null, "the lease lapses");
  const [, fence] = await acquire(b, "A", 60_000);
  assert(fence > old);
  await assert.rejects(a.call("LOCK.RELEASE", "job", "A", "FENCE", old), /^ReplyError: NOTHELD /);
  await assertHeld(a, "A", fence);
  assert.equal(await b.call("LOCK.RELEASE", "job", "A", "FENCE", fence), 0);
  assert.equal(await info(a, "job"), null);
});
