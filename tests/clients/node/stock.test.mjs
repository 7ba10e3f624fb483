// Stock: more buyers than pieces, a lock per article. The stock is read and written in two steps.
import assert from "node:assert/strict";
import { info, openLocks, testWithServer, waitFor } from "./support.mjs";

/** The answers that all buyers got. */
async function sell(scene, sku, { pieces, buyers, processes }) {
  await scene.connect().set(`stock:${sku}`, pieces);
  const shares = Array.from({ length: processes }, (_, at) => Math.floor((buyers + at) / processes));
  return (await Promise.all(shares.map((share) => scene.work("buy", { sku, buyers: share })))).flat();
}

async function assertSold(scene, sku, answers, { pieces, buyers }) {
  const count = (answer) => answers.filter((given) => given === answer).length;
  assert.deepEqual([count("yes"), count("no")], [pieces, buyers - pieces]);
  assert.equal(await scene.connect().get(`stock:${sku}`), "0");
}

testWithServer("no piece is sold twice", async (scene) => {
  const one = { pieces: 100, buyers: 500, processes: 8 };
  const other = { pieces: 40, buyers: 60, processes: 2 };
  const answers = await Promise.all([sell(scene, 25, one), sell(scene, 26, other)]);
  await assertSold(scene, 25, answers[0], one);
  await assertSold(scene, 26, answers[1], other);
});

testWithServer("other articles are sold unhindered", async (scene) => {
  const sale = { pieces: 10, buyers: 50, processes: 2 };
  const client = scene.connect();
  const { withLock, close } = await openLocks(client);
  let first;
  const hold = async () => {
    first = sell(scene, 25, sale);
    await assertSold(scene, 26, await sell(scene, 26, sale), sale);
    assert.equal(await client.get("stock:25"), "10");
    await waitFor(async () => (await info(client, "lock:sku:25")).waiters === 50, "all buyers of the first wait");
  };
  await withLock("lock:sku:25", hold, { leaseMs: 60_000 });
  close();
  await assertSold(scene, 25, await first, sale);
});
