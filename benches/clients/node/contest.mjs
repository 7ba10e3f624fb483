// A client that wants one lock; benches/compare starts several, and docs/bench.md tells what it counts.
//
// contest.mjs contend ADDRESS WHO SECONDS MS: warms up, says "ready", waits for a line, contends for so long, keeps each grant for MS,
// prints a line for each: when it came, and when it was released, and is ready again, until its input ends. contest.mjs hold ADDRESS WHO KEY: says "ready", then takes and
// gives back one lock as the lines "acquire" and "release" say, and prints when it had it, or began to give it back.
//
// Times are in ns of the one clock that all processes read.
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Cluster, Redis } from "ioredis";
import { Locks } from "redislock-client";
import { Mutex } from "redis-semaphore";

const LEASE_MS = 30_000;
/** How long it contends before it is "ready", in s: V8 compiles while a program runs. */
const WARM_UP = 5;
const RETRY_MS = 10; // redis-semaphore's default
const [mode, address, who, last, keep] = process.argv.slice(2);
const nodes = address.split(",").map((node) => `redis://${node}`);
const client = nodes.length > 1 ? new Cluster(nodes) : new Redis(nodes[0]);

function redislock(key, ...words) {
  let owner, fence;
  return {
    async acquire() {
      owner = randomUUID();
      const command = [key, "OWNER", owner, "PX", LEASE_MS, "BLOCK", 0, "ONCE", ...words];
      [, fence] = await client.call("LOCK.ACQUIRE", ...command);
    },
    release: () => client.call("LOCK.RELEASE", key, owner, "FENCE", fence),
    async rest() {},
  };
}

function ourPackage(key) {
  const locks = new Locks(client);
  let held;
  return {
    async acquire() {
      held = await locks.acquire(key, { lease: LEASE_MS });
    },
    release: () => held.release(),
    async rest() {},
    close: () => locks.close(),
  };
}

/** It renews its lease by itself. */
function library(key) {
  const mutex = new Mutex(client, key, { lockTimeout: LEASE_MS, acquireTimeout: 10 * LEASE_MS });
  return {
    acquire: () => mutex.acquire(),
    release: () => mutex.release(),
    // It has had its turn, and waits as the others do: asking at once, it would nearly always get the lock again.
    rest: (part = 1) => sleep(part * RETRY_MS),
  };
}

/** Contends for so long. Returns when each grant came, and was released. */
async function contend(lock, seconds) {
  await lock.rest(Math.random()); // so that those who ask from time to time don't ask all at once
  const grants = [];
  const end = performance.now() + 1000 * seconds;
  while (performance.now() < end) {
    await lock.acquire();
    const granted = process.hrtime.bigint();
    if (Number(keep)) await sleep(Number(keep));
    grants.push(`${granted} ${process.hrtime.bigint()}`);
    await lock.release();
    await lock.rest();
  }
  return grants;
}

async function hold(lock) {
  for await (const line of lines) {
    if (line === "acquire") await lock.acquire();
    console.log(String(process.hrtime.bigint()));
    if (line === "release") await lock.release();
  }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const locks = { redislock, session: (key) => redislock(key, "SESSION"), package: ourPackage, library };
const lock = locks[who](mode === "hold" ? last : "contested");
await client.ping();
if (mode === "contend") await contend(lock, WARM_UP);
console.log("ready");
if (mode === "hold") await hold(lock);
else {
  while (!(await lines.next()).done) console.log([...(await contend(lock, Number(last))), "ready"].join("\n"));
}
await lock.close?.();
await client.quit();
