// Numbers in a queue: 8 processes hand out the highest so far plus one, read and written in two steps.
import assert from "node:assert/strict";
import { testWithServer } from "./support.mjs";

const PROCESSES = 8;

/** The numbers that all processes together handed out, sorted. */
async function handOut(scene, count, env) {
  const all = Array.from({ length: PROCESSES }, () => scene.work("handOut", { count: count / PROCESSES }, env));
  await Promise.all(all);
  const numbers = await scene.connect().lrange("handed out", 0, -1);
  return numbers.map(Number).sort((a, b) => a - b);
}

testWithServer("none twice and none missing", async (scene) => {
  assert.deepEqual(await handOut(scene, 1000), Array.from({ length: 1000 }, (_, at) => at + 1));
});

testWithServer("control: without the lock, numbers come twice", async (scene) => {
  const numbers = await handOut(scene, 200, { REDISLOCK_TEST_WITHOUT_LOCK: "1" });
  assert.equal(numbers.length, 200);
  assert(new Set(numbers).size < 200);
});
