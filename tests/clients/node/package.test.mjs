// Tests what only concerns Node: clients and their settings, signals, errors. The scenarios of ../conformance test the rest.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, createClientPool } from "redis";
import { ClosedError, LockLostError, Locks, NotConfirmedError } from "redislock-client";
import { clients, connect, info, proxy, testWithLocks, testWithServer, waitFor } from "./support.mjs";

testWithLocks("held, waited for, handed over, lost", async (locks, other) => {
  const fences = await locks.using("door", { lease: 10_000 }, async (held) => {
    const now = await info(other, "door");
    assert.deepEqual([now.owner, now.fence, now.holds], [held.owner, held.fence, 1]);
    assert.equal(typeof held.fence, "number");
    const next = locks.acquire("door");
    await waitFor(async () => (await info(other, "door")).waiters === 1, "it waits");
    await held.release();
    const second = await next;
    await other.call("LOCK.BREAK", "door");
    await waitFor(() => second.lost, "it is told");
    await assert.rejects(second.release(), LockLostError);
    return [held.fence, second.fence];
  });
  assert(fences[0] < fences[1]);
  assert.equal(await info(other, "door"), null);
}, Object.keys(clients));

for (const late of ["LOCK.ACQUIRE", "LOCK.EXTEND"]) {
  // In a cluster, the commands may go to different nodes while a slot moves.
  testWithLocks(`a release that overtakes ${late} is no loss`, async (locks, other, client) => {
    const isFree = async () => (await info(other, "door")) === null;
    const duplicate = client.duplicate.bind(client);
    let held, answered;
    client.duplicate = (options) => {
      const line = duplicate(options), send = "call" in line ? "call" : "sendCommand", sent = line[send].bind(line);
      line[send] = async (...words) => {
        const [command] = words.flat();
        if (command === late && held && !answered) {
          const answer = waitFor(isFree, "the release").then(() => sent(...words));
          answered = answer.catch(() => {});
          return answer;
        }
        const reply = await sent(...words);
        if (command === "LOCK.RELEASE") await answered.then(() => sleep(0)); // so that the other reply is handled first
        return reply;
      };
      return line;
    };
    held = await locks.acquire("door", { lease: 1500 });
    if (late === "LOCK.ACQUIRE") await other.publish((await other.pubsub("CHANNELS"))[0], `gone ${held.owner}`);
    await waitFor(() => answered !== undefined, "it is on its way");
    await held.release();
    assert.equal(held.lost, undefined);
    await waitFor(isFree, "what was granted anew is given back");
  });
}

testWithLocks("a hundred tasks take two connections beside the client's", async (locks, other) => {
  let inside = 0, connections;
  const work = async () => {
    assert.equal((inside += 1), 1, "two are inside");
    connections ??= (await other.call("CLIENT", "LIST")).trim().split("\n").length;
    inside -= 1;
  };
  await Promise.all(Array.from({ length: 100 }, () => locks.using("door", {}, work)));
  assert.equal(connections, 4); // one of them is `other`
});

for (const lazyConnect of [false, true]) {
  testWithServer(`tasks that ask before the client is connected ask once (${lazyConnect ? "it" : "the subscription"} comes last)`, async (scene) => {
    const client = scene.connect({ lazyConnect }), locks = new Locks(client), other = scene.connect();
    assert.notEqual(client.status, "ready");
    try {
      await Promise.all(Array.from({ length: 10 }, () => locks.using("door", {}, () => {})));
      assert.match(await other.info("commandstats"), /cmdstat_lock\.acquire:calls=10,/); // nine locks begin without a claim
    } finally {
      await locks.close();
    }
  });
}

testWithLocks("the body's error counts more than the lock's", async (locks, other) => {
  const lose = async () => other.call("LOCK.BREAK", "door");
  const loseAndThrow = async () => {
    await lose();
    throw new RangeError("of the body");
  };
  const throwIt = () => assert.fail("of the body");
  assert.equal(await locks.using("door", {}, () => "result"), "result");
  await assert.rejects(locks.using("door", {}, throwIt), assert.AssertionError);
  assert.equal(await info(other, "door"), null);
  await assert.rejects(locks.using("door", {}, lose), LockLostError);
  await assert.rejects(locks.using("door", {}, loseAndThrow), RangeError);
  const aborted = (held) => (lose(), sleep(60_000, undefined, { signal: held.signal }));
  await assert.rejects(locks.using("door", {}, aborted), LockLostError);
});

testWithLocks("a signal tells of the loss, whenever it is asked for", async (locks, other) => {
  const [early, late] = [await locks.acquire("early"), await locks.acquire("late")];
  const told = new Promise((resolve) => early.signal.addEventListener("abort", resolve));
  await other.call("LOCK.BREAK", "early");
  await other.call("LOCK.BREAK", "late");
  await told;
  await waitFor(() => late.lost, "both are told");
  for (const { signal, lost } of [early, late]) {
    assert(signal.aborted && lost instanceof LockLostError);
    assert.equal(signal.reason, lost);
  }
});

testWithLocks("a wait ends with its signal, and with that signal's reason", async (locks, other) => {
  await other.call("LOCK.ACQUIRE", "door", "OWNER", "other");
  const reason = new RangeError("stopped");
  await assert.rejects(locks.acquire("door", { signal: AbortSignal.abort(reason) }), RangeError);
  assert.equal((await info(other, "door")).waiters, 0);
  const stop = new AbortController();
  const waiting = locks.acquire("door", { signal: stop.signal });
  await waitFor(async () => (await info(other, "door")).waiters === 1, "it waits");
  stop.abort(reason);
  await assert.rejects(waiting, RangeError);
  assert.equal((await info(other, "door")).waiters, 0);
});

testWithLocks("bad input is told by name", async (locks, other) => {
  await other.call("CONFIG", "RESETSTAT");
  const refused = (options, kind, keys = "door") => assert.rejects(locks.acquire(keys, options), kind);
  for (const options of [{ waitMs: 5 }, { lease: "5" }, { lease: null }, { owner: 5 }, { shared: 1 }, { sync: [1] }]) {
    await refused(options, TypeError);
  }
  for (const options of [{ lease: 0.5 }, { lease: Infinity }, { wait: NaN }, { limit: -1 }, { owner: "é".repeat(65) }]) {
    await refused(options, RangeError);
  }
  for (const keys of [[], ["a", "a"], [5]]) await refused({}, TypeError, keys);
  assert.doesNotMatch(await other.info("commandstats"), /lock\./);
});

testWithServer("a pool is refused, since its connections come and go", async (scene) => {
  const pool = createClientPool({ socket: { host: "127.0.0.1", port: scene.port } });
  assert.throws(() => new Locks(pool), TypeError);
  assert.throws(() => new Locks({}), TypeError);
});

testWithLocks("a try asks once", async (locks, other) => {
  const held = await locks.tryAcquire("door", { lease: 10_000 });
  assert.equal(await locks.tryAcquire(["door", "window"]), undefined);
  await held.release();
  await assert.rejects(locks.tryAcquire("door", { limit: 0 }), RangeError);
  assert.equal(await info(other, "door"), null);
});

testWithServer("connections that go silent are replaced, whatever is sent on them", async ({ port }) => {
  const test = async (name) => {
    const door = await proxy(port), { client, end } = await clients[name](door.port), locks = new Locks(client);
    const held = await locks.acquire(name), begin = performance.now();
    door.forget();
    // The client sees these commands as traffic on the socket, although nothing comes back.
    const asks = setInterval(() => locks.acquire(`other:${name}`, { wait: 50 }).catch(() => {}), 500);
    try {
      await (await locks.acquire(`third:${name}`, { wait: 60_000 })).release();
      assert(performance.now() - begin < 20_000);
      await held.release();
      await locks.close();
    } finally {
      clearInterval(asks);
      end();
      door.end();
    }
  };
  await Promise.all(["ioredis, RESP2", "node-redis, RESP3"].map(test));
});

testWithLocks("while replicas have to confirm, a connection may be silent for longer", async (locks, other) => {
  await assert.rejects(locks.acquire("door", { sync: [1, 11_000] }), NotConfirmedError);
  assert.match(await other.info("commandstats"), /lock\.acquire:calls=1,/);
});

testWithLocks("an owner's name may look like a message", async (locks, other) => {
  const owner = "5 granted 7 lost\n8";
  await other.call("LOCK.ACQUIRE", "door", "OWNER", "other");
  const waiting = locks.acquire("door", { owner });
  await waitFor(async () => (await info(other, "door")).waiters === 1, "it waits");
  const begin = performance.now();
  await other.call("LOCK.RELEASE", "door", "other");
  const held = await waiting;
  assert(performance.now() - begin < 3000, "the message was heard: by asking again it would take 4 s");
  await other.call("LOCK.BREAK", "door");
  await waitFor(() => held.lost, "it is told");
});

testWithLocks("closed locks", async (locks, other, client) => {
  const listeners = () => client.eventNames().map((name) => client.listenerCount(name)).reduce((sum, count) => sum + count, 0);
  const before = listeners();
  const own = new Locks(client);
  const held = await own.acquire("door");
  const ended = assert.rejects(own.acquire("door"), ClosedError);
  await waitFor(async () => (await info(other, "door")).waiters === 1, "it waits");
  await own.close();
  await ended;
  assert(held.lost, "who works on is told");
  assert.equal(await info(other, "door"), null);
  assert.equal(listeners(), before);
  await assert.rejects(own.acquire("door"), ClosedError);
});

testWithLocks("locks that are closed while the subscription connects leave no connection behind", async (_, other, client) => {
  await other.call("LOCK.ACQUIRE", "door", "OWNER", "other");
  const connections = async () => (await other.call("CLIENT", "LIST")).trim().split("\n").length;
  const before = await connections();
  for (let turns = 0; turns < 60; turns += 1) {
    const locks = new Locks(client);
    const ended = assert.rejects(locks.acquire("door"), ClosedError);
    for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate);
    await locks.close();
    await ended;
  }
  await waitFor(async () => (await connections()) === before, "no more connections than before");
});

testWithServer("another client needs no more than the interface", async (scene) => {
  const [commands, subscriber, other] = [scene.connect(), scene.connect(), scene.connect()];
  const locks = new Locks({
    send: (_, [command, ...words]) => commands.call(command, ...words),
    async open(channel, { hear }) {
      await subscriber.subscribe(channel);
      subscriber.on("message", (_, message) => hear(message));
    },
    watch: () => () => {},
    closed: false,
  });
  const held = await locks.acquire("door");
  await other.call("LOCK.BREAK", "door");
  await waitFor(() => held.lost, "it is told");
  await locks.close();
});

testWithServer("the prefix of the client goes before locks, as before every key", async ({ port, connect: plainly }) => {
  const nodeRedis = await createClient({ socket: { host: "127.0.0.1", port }, keyPrefix: "app:" }).connect(), plain = plainly();
  await new Locks(nodeRedis).using("door", {}, async () => assert((await info(plain, "app:door"))?.owner)).finally(() => nodeRedis.destroy());
  const client = connect(port, { keyPrefix: "app:" });
  const locks = new Locks(client);
  const held = await locks.acquire("door");
  assert.deepEqual(held.keys, ["door"]);
  assert.equal((await info(plain, "app:door")).owner, held.owner);
  assert.equal(await info(plain, "door"), null);
  const next = locks.acquire("door");
  await waitFor(async () => (await info(plain, "app:door")).waiters === 1, "it waits");
  await held.extend();
  await held.release();
  await (await next).release();
  const both = await locks.acquire(["a", "b"]);
  assert.equal((await info(plain, "app:b")).owner, both.owner);
  const bare = new Locks(client, { prefix: "" });
  const open = await bare.acquire("door");
  assert.equal((await info(plain, "door")).owner, open.owner);
  await Promise.all([locks.close(), bare.close()]);
  client.disconnect();
});
