// The idiom: a lock around an async function, with nothing but two raw commands. Copy it into your project.
import { randomUUID } from "node:crypto";

/**
 * Waits for the lock (0: without limit), runs `body(fence)` while it is held, and gives what that gives.
 *
 * Its release rejects with NOTHELD where the lease had lapsed. A connection that waits can do nothing else, not even
 * release another lock: take one for each that waits. `ONCE`: ioredis asks again by itself when it loses a connection.
 */
export async function withLock(client, key, body, { leaseMs = 10_000, waitMs = 0 } = {}) {
  const owner = randomUUID();
  const grant = await client.call("LOCK.ACQUIRE", key, "OWNER", owner, "PX", leaseMs, "BLOCK", waitMs, "ONCE");
  if (grant === null) throw new Error(`${key} is still another's after ${waitMs} ms`);
  const [, fence] = grant;
  try {
    return await body(fence);
  } finally {
    await client.call("LOCK.RELEASE", key, owner, "FENCE", fence);
  }
}
