// One of several clients that want one lock; benches/compare/clients.rs starts them and puts together what they say.
//
// contest.mjs PORT redislock|library SECONDS says "ready", waits for a line, contends for so long, and prints a line for each
// grant: when it came, in ns of the one clock that all processes read.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";

const KEY = "contested";
const LEASE_MS = 30_000;
const RETRY_MS = 10; // redis-semaphore's default
const [port, who, seconds] = process.argv.slice(2);
const client = new Redis(Number(port));
const grants = [];

async function redislock() {
  const owner = randomUUID();
  const [, fence] = await client.call("LOCK.ACQUIRE", KEY, "OWNER", owner, "PX", LEASE_MS, "BLOCK", 0, "ONCE");
  grants.push(process.hrtime.bigint());
  await client.call("LOCK.RELEASE", KEY, owner, "FENCE", fence);
}

async function library() {
  const mutex = new Mutex(client, KEY, { lockTimeout: LEASE_MS, acquireTimeout: LEASE_MS });
  await mutex.acquire();
  grants.push(process.hrtime.bigint());
  await mutex.release();
  // It has had its turn, and waits as the others do: asking at once, it would nearly always get the lock again.
  await sleep(RETRY_MS);
}

const turn = { redislock, library }[who];
await client.ping();
console.log("ready");
await once(process.stdin, "data");
const end = performance.now() + 1000 * Number(seconds);
while (performance.now() < end) await turn();
process.stdin.destroy();
await client.quit();
console.log(grants.join("\n"));
