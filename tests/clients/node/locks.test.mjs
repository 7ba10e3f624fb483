// The programs for a shared connection: many tasks, two connections, the clients' defaults.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Cluster, Redis } from "ioredis";
import { createClient, createCluster } from "redis";
import { openLocks as openIoredis } from "./docs/locks.mjs";
import { openLocks as openNodeRedis } from "./docs/locks-node-redis.mjs";
import { withSession } from "./docs/session.mjs";
import { info, testWithServer, waitFor } from "./support.mjs";

const address = (url) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) });
const times = (count, make) => Promise.all(Array.from({ length: count }, (_, at) => make(at)));

/** Each opens the locks as the documentation does, on a client with its defaults. */
const clients = {
  async ioredis(url) {
    const client = new Redis(url);
    const { withLock, close } = await openIoredis(client);
    return { withLock, client, end: () => (close(), client.disconnect()) };
  },
  async "node-redis"(url) {
    const client = await createClient({ url }).on("error", () => {}).connect();
    const subscriber = await client.duplicate().on("error", () => {}).connect();
    const { withLock, wakeAll, close } = await openNodeRedis((...words) => client.sendCommand(words), subscriber);
    client.on("ready", wakeAll);
    const end = async () => {
      await close();
      await Promise.all([client.close(), subscriber.close()]);
    };
    return { withLock, client, end };
  },
};
const clusters = {
  async ioredis(url) {
    const client = new Cluster([address(url)]);
    const { withLock, close } = await openIoredis(client);
    return { withLock, client, end: () => (close(), client.disconnect()) };
  },
  async "node-redis"(url) {
    const client = await createCluster({ rootNodes: [{ url }] }).connect();
    const send = (...words) => client.sendCommand(words[1], false, words);
    const { withLock, close } = await openNodeRedis(send, client);
    return { withLock, client, end: async () => (await close(), client.close()) };
  },
};

/** So many tasks at once; what they did, in order. `meanwhile` is called with how many are done. */
async function allAtOnce(withLock, count, meanwhile = () => {}) {
  const done = [];
  let inside = 0;
  await times(count, (task) =>
    withLock("door", async () => {
      inside += 1;
      assert.equal(inside, 1, "two are inside");
      await sleep(1); // the others' chance
      inside -= 1;
      await meanwhile(done.push(task));
    }, { waitMs: 60_000 }));
  return done;
}

const inOrder = (count) => Array.from({ length: count }, (_, at) => at);

for (const [name, open] of Object.entries(clients)) {
  const testWithLocks = (title, body) =>
    testWithServer(`${title} (${name})`, async (scene) => {
      const locks = await open(`redis://127.0.0.1:${scene.port}`);
      try {
        await body(locks, scene.connect());
      } finally {
        await locks.end();
      }
    });

  testWithLocks("100 tasks are served one by one, as they asked, over two connections", async ({ withLock }, other) => {
    let connections;
    const count = async (done) => {
      if (done === 50) connections = (await other.call("CLIENT", "LIST")).trim().split("\n").length;
    };
    assert.deepEqual(await allAtOnce(withLock, 100, count), inOrder(100));
    assert.equal(connections, 3); // one is `other`
  });

  testWithLocks("500 buyers of 5 articles: nothing is sold twice", async ({ withLock, client }, other) => {
    for (let sku = 0; sku < 5; sku += 1) await other.set(`stock:${sku}`, 20);
    const answers = await times(500, (buyer) =>
      withLock(`lock:sku:${buyer % 5}`, async () => {
        const left = Number(await client.get(`stock:${buyer % 5}`));
        await sleep(0); // the others' chance
        if (left > 0) await client.set(`stock:${buyer % 5}`, `${left - 1}`);
        return left > 0;
      }));
    assert.equal(answers.filter(Boolean).length, 100);
    assert.deepEqual(await other.mget([0, 1, 2, 3, 4].map((sku) => `stock:${sku}`)), ["0", "0", "0", "0", "0"]);
  });

  testWithLocks("all are served though the subscription is cut", async ({ withLock }, other) => {
    const cut = async (done) => {
      if (done === 30) assert.equal(await other.call("CLIENT", "KILL", "TYPE", "pubsub"), 1);
    };
    assert.deepEqual((await allAtOnce(withLock, 100, cut)).sort((a, b) => a - b), inOrder(100));
  });

  testWithLocks("all queue up again at once when the connection of their commands is cut", async ({ withLock }, other) => {
    await other.call("LOCK.ACQUIRE", "door", "OWNER", "other");
    const waiting = times(20, () => withLock("door", async () => {}, { waitMs: 60_000 }));
    const begin = performance.now();
    for (let cut = 0; cut < 5; cut += 1) {
      await waitFor(async () => (await info(other, "door")).waiters === 20, "all wait");
      // It may be cut already, and those who waited on it be counted still.
      await waitFor(async () => (await other.call("CLIENT", "KILL", "TYPE", "normal")) === 1, "a connection to cut");
    }
    await waitFor(async () => (await info(other, "door")).waiters === 20, "all wait");
    assert(performance.now() - begin < 10_000); // by the timer alone it would take 16 s at least
    await other.call("LOCK.RELEASE", "door", "other");
    await waiting;
  });

  testWithLocks("a grant whose reply is lost is given back", async ({ withLock, client }, other) => {
    const name = client instanceof Redis ? "call" : "sendCommand";
    const send = client[name].bind(client);
    client[name] = async (...words) => {
      const reply = await send(...words);
      if (words.flat()[0] === "LOCK.ACQUIRE") throw new RangeError("lost");
      return reply;
    };
    await assert.rejects(withLock("door", () => assert.fail("no reply")), RangeError);
    assert.equal(await info(other, "door"), null);
  });

  testWithLocks("a lost message costs seconds, not the lock", async ({ withLock }, other) => {
    await other.call("LOCK.ACQUIRE", "door", "OWNER", "other");
    const waiting = withLock("door", async (fence) => fence);
    await waitFor(async () => (await info(other, "door")).waiters === 1, "it waits");
    // Its place is taken over by another channel, as if the message were lost.
    const { queue } = await info({ call: () => other.call("LOCK.INFO", "door", "FULL") });
    const { owner } = await info({ call: () => queue[0] });
    const ask = ["LOCK.ACQUIRE", "door", "OWNER", owner, "BLOCK", 60_000, "NOTIFY", "elsewhere", "ONCE"];
    const listener = other.duplicate();
    await listener.subscribe("elsewhere");
    assert.equal(await other.call(...ask), "QUEUED");
    await other.call("LOCK.RELEASE", "door", "other");
    assert((await waiting) > 0);
    listener.disconnect();
  });

  testWithLocks("a task that stops waiting leaves the queue", async ({ withLock }, other) => {
    const stop = new AbortController();
    await withLock("door", async () => {
      const stopped = withLock("door", () => assert.fail("two have it"), { waitMs: 60_000, signal: stop.signal });
      await waitFor(async () => (await info(other, "door")).waiters === 1, "it waits");
      stop.abort(new RangeError("stopped"));
      await assert.rejects(stopped, RangeError);
      assert.equal((await info(other, "door")).waiters, 0);
    });
  });

  testWithLocks("a task waits no longer than asked, and leaves the queue", async ({ withLock }, other) => {
    await withLock("door", async () => {
      await assert.rejects(withLock("door", () => assert.fail("two have it"), { waitMs: 20 }), /someone else holds door/);
      assert.equal((await info(other, "door")).waiters, 0);
    });
  });

  testWithLocks("a lost lock does not go unnoticed, and hides nothing", async ({ withLock }, other) => {
    const lose = () => other.call("LOCK.BREAK", "door");
    const loseAndThrow = async () => {
      await lose();
      throw new RangeError("of the body");
    };
    assert.equal(await withLock("door", async () => "result"), "result");
    await assert.rejects(withLock("door", lose), /NOTHELD /);
    await assert.rejects(withLock("door", loseAndThrow), RangeError);
    await other.set("door", "no lock");
    await assert.rejects(withLock("door", () => assert.fail("no lock")), /WRONGTYPE /);
  });

  testWithLocks("a task that is sent away is told why", async ({ withLock }, other) => {
    await other.call("LOCK.ACQUIRE", "door", "OWNER", "other");
    const told = assert.rejects(withLock("door", () => assert.fail("no lock"), { waitMs: 60_000 }), /WRONGTYPE /);
    await waitFor(async () => (await info(other, "door")).waiters === 1, "it waits");
    await other.set("door", "no lock");
    await told;
  });
}

for (const [name, open] of Object.entries(clusters)) {
  test(`in a cluster 100 tasks are served one by one (${name})`, { timeout: 60_000 }, async () => {
    const { withLock, end } = await open(process.env.CLUSTER_URL);
    try {
      assert.deepEqual((await allAtOnce(withLock, 100)).sort((a, b) => a - b), inOrder(100));
    } finally {
      await end();
    }
  });
}

testWithServer("sessions of readers and of permits", async (scene) => {
  const [client, other] = [scene.connect(), scene.connect()];
  const within = (mode, body) => withSession(client, "door", body, { waitMs: 20, mode });
  const holders = async () => (await info(other, "door")).holders;
  assert.equal(await within(["SHARED"], () => within(["SHARED"], holders)), 2);
  await waitFor(async () => (await info(other, "door")) === null, "the sessions have ended");
  const second = () => assert.rejects(within(["LIMIT", 2], () => assert.fail("three have it")), /someone else/);
  await within(["LIMIT", 2], () => within(["LIMIT", 2], second));
});

testWithServer("a session ends with its connection, and the body is told", async (scene) => {
  const [client, other] = [scene.connect(), scene.connect()];
  assert.equal(await withSession(client, "door", async () => "result"), "result");
  await waitFor(async () => (await info(other, "door")) === null, "the session has ended");
  const body = async (fence, signal) => {
    assert.equal((await info(other, "door")).session, 1);
    await assert.rejects(withSession(client, "door", () => assert.fail("two have it"), { waitMs: 20 }), /someone else/);
    const [, id] = /^id=(\d+) .*cmd=lock.acquire /m.exec(await other.call("CLIENT", "LIST"));
    await other.call("CLIENT", "KILL", "ID", id);
    await waitFor(() => signal.aborted, "the body is told");
  };
  await assert.rejects(withSession(client, "door", body), /the session is lost/);
  assert.equal(await info(other, "door"), null);
});
