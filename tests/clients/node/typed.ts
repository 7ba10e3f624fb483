// A small user's program with both clients: `tsc --strict` has to accept it, and it has to run.
import { Redis } from "ioredis";
import { createClient, createCluster, createSentinel } from "redis";
import { Locks, LockLostError, NotAcquiredError, type Connection, type Held, type Options } from "redislock-client";

const url = process.env.REDIS_URL ?? "redis://localhost:6379";
const ioredis = new Redis(url);
const nodeRedis = await createClient({ url }).connect();

for (const locks of [new Locks(ioredis), new Locks(nodeRedis)]) {
  const options: Options = { wait: 10_000, lease: 20_000, signal: AbortSignal.timeout(10_000) };
  {
    await using held: Held = await locks.acquire("typed", options);
    const [fence, slot]: [number, number | undefined] = [held.fence, held.slot];
    console.log("held with fence", fence, slot, held.signal.aborted);
    const other: unknown = await locks.acquire("typed", { wait: 0 }).catch((error: unknown) => error);
    if (!(other instanceof NotAcquiredError)) throw new Error(`two have it: ${other}`);
  }
  const length: number = await locks.using(["{typed}1", "{typed}2"], {}, async ({ fences }) => fences.length);
  if (length !== 2) throw new Error("two locks have two fences");
  try {
    await using held = await locks.acquire("typed", { wait: 0 }); // free, since the block above released it
    const told = new Promise((resolve) => held.signal.addEventListener("abort", resolve));
    await ioredis.call("LOCK.BREAK", held.keys[0]!);
    await told;
  } catch (error) {
    if (!(error instanceof LockLostError)) throw error;
    console.log("lost:", error.message);
  }
  await locks.close();
}

// These are only type-checked, and never called.
export const cluster = () => new Locks(createCluster({ rootNodes: [{ url }] }));
export const sentinel = () => new Locks(createSentinel({ name: "locks", sentinelRootNodes: [] }));
export const own = (connection: Connection) => new Locks(connection);
// @ts-expect-error there is no such option
export const wrong = (locks: Locks) => locks.acquire("typed", { waitMs: 5 });

ioredis.disconnect();
nodeRedis.destroy();
