// Readers and writers, n at a time: the programs of the documentation with SHARED and LIMIT, many tasks at once, the clients' defaults.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { openLocks as openIoredis } from "./docs/locks.mjs";
import { openLocks as openNodeRedis } from "./docs/locks-node-redis.mjs";
import { info, testWithServer, waitFor } from "./support.mjs";

const READERS = 100, WRITERS = 5, WORKERS = 200, LIMIT = 10, KILLED = 5;
const times = (count, make) => Promise.all(Array.from({ length: count }, (_, at) => make(at)));

const clients = {
  async ioredis(url) {
    const client = new Redis(url);
    const { withLock, close } = await openIoredis(client);
    return { withLock, end: () => (close(), client.disconnect()) };
  },
  async "node-redis"(url) {
    const client = await createClient({ url }).on("error", () => {}).connect();
    const subscriber = await client.duplicate().on("error", () => {}).connect();
    const { withLock, close } = await openNodeRedis((...words) => client.sendCommand(words), subscriber);
    return { withLock, end: async () => (await close(), client.close(), subscriber.close()) };
  },
};

for (const [name, open] of Object.entries(clients)) {
  const testWithLocks = (title, body) =>
    testWithServer(`${title} (${name})`, async (scene) => {
      const locks = await open(`redis://127.0.0.1:${scene.port}`);
      try {
        await body(locks.withLock, scene);
      } finally {
        await locks.end();
      }
    });

  testWithLocks("a hundred tasks read and five write", async (withLock, scene) => {
    const book = join(scene.folder, "book");
    await writeFile(book, "0 0");
    let readers = 0, writers = 0, most = 0, written = 0;
    const read = async () => {
      assert.equal(writers, 0, "a reader beside a writer");
      most = Math.max(most, (readers += 1));
      await sleep(20);
      const [one, other] = (await readFile(book, "utf8")).split(" ");
      assert.equal(one, other);
      assert.equal(writers, 0, "a writer beside a reader");
      readers -= 1;
    };
    const write = async () => {
      assert.deepEqual([readers, writers], [0, 0], "a writer beside somebody");
      writers += 1;
      await writeFile(book, `${(written += 1)} `);
      await sleep(1); // the others' chance
      await writeFile(book, `${written} ${written}`);
      assert.deepEqual([readers, writers], [0, 1], "somebody beside a writer");
      writers -= 1;
    };
    await times(WRITERS + READERS, async (task) => {
      for (let round = 0; round < 4; round += 1) {
        if (task < WRITERS) await withLock("book", write, { waitMs: 60_000 });
        else await withLock("book", read, { waitMs: 60_000, mode: ["SHARED"] });
      }
    });
    assert.equal(written, 4 * WRITERS);
    assert(most > READERS / 2, `${most} at most read at a time`);
    assert.equal(await info(scene.connect(), "book"), null);
  });

  testWithLocks("two hundred tasks share ten permits, and some holders are killed", async (withLock, scene) => {
    const other = scene.connect();
    const lost = await times(KILLED, async (at) => {
      const client = scene.connect({ retryStrategy: null }).on("error", () => {});
      await client.call("LOCK.ACQUIRE", "service", "OWNER", `lost:${at}`, "PX", 60_000, "LIMIT", LIMIT, "SESSION");
      return client.call("CLIENT", "ID");
    });
    let inside = 0, most = 0, served = 0;
    const work = async () => {
      most = Math.max(most, (inside += 1));
      await sleep(20);
      inside -= 1;
      served += 1;
      if (served === 20) for (const id of lost) assert.equal(await other.call("CLIENT", "KILL", "ID", id), 1);
    };
    await times(WORKERS, () => withLock("service", work, { waitMs: 60_000, mode: ["LIMIT", `${LIMIT}`] }));
    assert.equal(served, WORKERS);
    assert.equal(most, LIMIT);
    await waitFor(async () => (await info(other, "service")) === null, "all permits are given back");
  });
}
