// What the tests share: the server of ./run, connections to it, waiting.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const port = Number(process.env.REDIS_PORT);

export const connect = (port, options = {}) => new Redis({ host: "127.0.0.1", port, ...options });

/** The condition's value, as soon as it is true. */
export async function waitFor(condition, what) {
  for (const end = performance.now() + 60_000; ; await sleep(2)) {
    const value = await condition();
    if (value) return value;
    assert(performance.now() < end, `not within a minute: ${what}`);
  }
}

/** LOCK.INFO as an object: ioredis gives a map as an object where it is told to, else as a flat array of pairs. */
export async function info(client, key) {
  const reply = await client.call("LOCK.INFO", key);
  if (!Array.isArray(reply)) return reply;
  return Object.fromEntries(reply.flatMap((name, at) => (at % 2 ? [] : [[name, reply[at + 1]]])));
}

/** A test that has the server to itself, empty, and what it connects. */
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
