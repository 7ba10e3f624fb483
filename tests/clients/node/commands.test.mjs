// Raw commands through ioredis and node-redis: on a pool and on a shared connection, in RESP2 and RESP3.
import assert from "node:assert/strict";
import { Redis } from "ioredis";
import { createClient, createClientPool } from "redis";
import { testWithServer, waitFor } from "./support.mjs";

// What sends on one connection, or on any of a pool, and what sends on another one, which may wait.
const ioredis = (protocol) => async (port) => {
  const shared = new Redis({ host: "127.0.0.1", port, protocol });
  const other = shared.duplicate();
  return [(...words) => shared.call(...words), (...words) => other.call(...words), () => [shared, other].forEach((client) => client.disconnect())];
};
const nodeRedis = (RESP) => async (port) => {
  const shared = await createClient({ socket: { host: "127.0.0.1", port }, RESP }).connect();
  const other = await shared.duplicate().connect();
  const sender = (client) => (...words) => client.sendCommand(words.map(String));
  return [sender(shared), sender(other), () => [shared, other].forEach((client) => client.destroy())];
};
const nodeRedisPool = (RESP) => async (port) => {
  const pool = await createClientPool({ socket: { host: "127.0.0.1", port }, RESP }, { minimum: 2 }).connect();
  const send = (...words) => pool.sendCommand(words.map(String));
  return [send, send, () => pool.destroy()];
};

const clients = { "ioredis, shared": ioredis, "node-redis, shared": nodeRedis, "node-redis, a pool": nodeRedisPool };
for (const [name, client] of Object.entries(clients)) {
  for (const protocol of [2, 3]) {
    testWithServer(`a lock from its grant to its end (${name}, RESP${protocol})`, async (scene) => {
      const [send, sendElsewhere, end] = await client(protocol)(scene.port);
      try {
        await fromGrantToEnd(send, sendElsewhere);
      } finally {
        end();
      }
    });
  }
}

async function fromGrantToEnd(send, sendElsewhere) {
  const [owner, fence, holds, lease] = await send("LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 30_000);
  assert.deepEqual([owner, holds, lease], ["alice", 1, 30_000]);
  assert.equal(await send("LOCK.ACQUIRE", "door", "OWNER", "bob"), null);
  const waiting = sendElsewhere("LOCK.ACQUIRE", "door", "OWNER", "bob", "BLOCK", 0);
  const waiters = async () => {
    const reply = await send("LOCK.INFO", "door");
    return Array.isArray(reply) ? reply[reply.indexOf("waiters") + 1] : reply.waiters;
  };
  await waitFor(async () => (await waiters()) === 1, "bob waits");
  assert.equal(await send("LOCK.RELEASE", "door", "alice", "FENCE", fence), 0);
  const [next, nextFence] = await waiting;
  assert(next === "bob" && nextFence > fence);
  assert.equal(await send("LOCK.ACQUIRE", "door", "OWNER", "carol", "BLOCK", 60_000, "NOTIFY", "mine", "ONCE"), "QUEUED");
  await assert.rejects(send("LOCK.EXTEND", "door", "alice"), /NOTHELD /);
  await assert.rejects(send("LOCK.ACQUIRE", "door", "OWNED"), /ERR syntax error/);
  assert.equal(await send("LOCK.INFO", "window"), null);
}

// The way that the documentation has to one connection that stays, and is not made anew unseen.
const sessions = {
  async ioredis(port) {
    const shared = new Redis({ host: "127.0.0.1", port });
    const session = shared.duplicate({ retryStrategy: null }).on("error", () => {});
    return { send: (...words) => session.call(...words), end: () => [shared, session].forEach((one) => one.disconnect()) };
  },
  async "node-redis"(port) {
    const shared = createClient({ socket: { host: "127.0.0.1", port } });
    const session = shared.duplicate({ socket: { host: "127.0.0.1", port, reconnectStrategy: false } });
    await session.on("error", () => {}).connect();
    return { send: (...words) => session.sendCommand(words.map(String)), end: () => session.isOpen && session.destroy() };
  },
};
for (const [name, open] of Object.entries(sessions)) {
  testWithServer(`a session ends with its connection, and that is told (${name})`, async (scene) => {
    const other = scene.connect();
    const { send, end } = await open(scene.port);
    try {
      const acquire = () => send("LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 600_000, "ONCE", "SESSION");
      const [, fence] = await acquire();
      assert.equal((await acquire())[1], fence);
      await other.call("CLIENT", "KILL", "ID", await send("CLIENT", "ID"));
      await waitFor(async () => (await other.call("LOCK.INFO", "door")) === null, "the session ends");
      await assert.rejects(acquire());
    } finally {
      end();
    }
  });
}
