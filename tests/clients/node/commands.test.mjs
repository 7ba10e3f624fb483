// Sessions of raw commands through ioredis and node-redis.
import assert from "node:assert/strict";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { testWithServer, waitFor } from "./support.mjs";

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
