// Helpers of the tests: the server that ./run started, connections to it, and waiting.
import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Locks } from "redislock-client";

const port = Number(process.env.REDIS_PORT);

export const connect = (port, options = {}) => new Redis({ host: "127.0.0.1", port, ...options });

/** Waits until the condition is true, and returns its value. */
export async function waitFor(condition, what) {
  for (const end = performance.now() + 60_000; ; await sleep(2)) {
    const value = await condition();
    if (value) return value;
    assert(performance.now() < end, `not within a minute: ${what}`);
  }
}

/** The reply of LOCK.INFO as an object: ioredis returns a map as an object only if it is told to, otherwise as a flat array. */
export async function info(client, key) {
  const reply = await client.call("LOCK.INFO", key);
  if (!Array.isArray(reply)) return reply;
  return Object.fromEntries(reply.flatMap((name, at) => (at % 2 ? [] : [[name, reply[at + 1]]])));
}

/** A proxy before the server. After `forget`, existing connections get no more data, as in some networks; new ones work. */
export async function proxy(port, at = 0) {
  const pairs = new Set();
  const door = net.createServer((client) => {
    const server = net.connect(port, "127.0.0.1"), pair = [client, server];
    pairs.add(pair);
    for (const [from, to] of [pair, [server, client]]) {
      from.on("error", () => {}).on("close", () => (to.destroy(), pairs.delete(pair)));
      from.pipe(to);
    }
  });
  await new Promise((resolve) => door.listen(at, "127.0.0.1", resolve));
  return {
    port: door.address().port,
    forget: () => pairs.forEach((pair) => pair.forEach((end) => end.unpipe().resume())),
    end: () => (pairs.forEach(([client]) => client.destroy()), door.close()),
  };
}

/** Defines a test that has the empty server to itself. Connections that it makes are closed at its end. */
export function testWithServer(name, body) {
  test(name, { timeout: 180_000 }, async (t) => {
    const clients = [];
    const scene = { port, connect: (options) => clients[clients.push(connect(port, options)) - 1] };
    t.after(() => clients.forEach((client) => client.disconnect()));
    const first = scene.connect();
    await waitFor(async () => (await first.call("CLIENT", "LIST")).trim().split("\n").length === 1, "the test before has left");
    await first.flushall();
    await first.config("RESETSTAT");
    await first.quit();
    await body(scene);
  });
}

const ioredis = (options) => async (port) => {
  const client = connect(port, options);
  return { client, end: () => client.disconnect() };
};
const nodeRedis = (RESP) => async (port) => {
  const client = await createClient({ socket: { host: "127.0.0.1", port }, RESP }).on("error", () => {}).connect();
  return { client, end: () => client.destroy() };
};
export const clients = {
  "ioredis, RESP2": ioredis({ protocol: 2 }),
  "ioredis, RESP3": ioredis({ protocol: 3 }),
  "ioredis, RESP3 with its types": ioredis({ protocol: 3, replyMapping: "resp3" }),
  "ioredis, numbers as strings": ioredis({ stringNumbers: true }),
  "ioredis, no queue while offline": ioredis({ enableOfflineQueue: false, lazyConnect: true, maxRetriesPerRequest: 1 }),
  "node-redis, RESP2": nodeRedis(2),
  "node-redis, RESP3": nodeRedis(3),
};

/** Defines a test with locks for each of these clients. */
export function testWithLocks(title, body, names = [Object.keys(clients)[0], "node-redis, RESP3"]) {
  for (const name of names) {
    testWithServer(`${title} (${name})`, async (scene) => {
      const { client, end } = await clients[name](scene.port);
      if (client.status === "wait") await client.connect();
      const locks = new Locks(client);
      try {
        await body(locks, scene.connect(), client);
      } finally {
        await locks.close();
        end();
      }
    });
  }
}
