import { Redis } from "ioredis";
import Redlock from "redlock";
import { Locks } from "redislock-client";

/** For the time in which some processes know the old lock only. Both are renewed until the routine ends, and its signal tells of both. */
export function both(redlock, locks, name, routine, { lease = 30_000, wait = 10_000 } = {}) {
  return redlock.using([`lock:${name}`], lease, (old) =>
    locks.using(`redislock:${name}`, { lease, wait, signal: old }, (held) => routine(AbortSignal.any([old, held.signal]), held.fence)));
}

if (import.meta.filename === process.argv[1]) {
  const client = new Redis(process.env.REDIS_URL ?? "redis://localhost:6379"), locks = new Locks(client);
  await both(new Redlock([client]), locks, "invoice:42", async (signal, fence) => console.log("held with fence", fence));
  await locks.close();
  await client.quit();
}
