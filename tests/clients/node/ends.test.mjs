// What becomes of locks when their client or a lock around them ends, or a listener fails.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { ClosedError, LockLostError, Locks } from "redislock-client";
import { clients, info, proxy, testWithLocks, testWithServer, waitFor } from "./support.mjs";

for (const name of ["ioredis, RESP2", "node-redis, RESP3"]) {
  testWithServer(`a client that is closed ends what was made of it (${name})`, async ({ port, connect: plainly }) => {
    const { client } = await clients[name](port), plain = plainly();
    const locks = new Locks(client);
    const held = await locks.acquire("door");
    const keeper = new Locks(plain);
    const taken = await keeper.acquire("taken");
    const waits = locks.acquire("taken");
    await waitFor(async () => (await info(plain, "taken")).waiters === 1, "it waits");
    const begin = performance.now();
    await ("quit" in client && name.startsWith("ioredis") ? client.quit() : client.close());
    await assert.rejects(waits, ClosedError);
    assert(performance.now() - begin < 3000, "not only when it asks again");
    await waitFor(() => held.lost, "the holder is told");
    assert.match(held.lost.message, /closed/);
    await assert.rejects(held.release(), LockLostError);
    await waitFor(async () => (await info(plain, "door")) === null, "the lock is released");
    await waitFor(async () => (await plain.call("CLIENT", "LIST")).split("\n").filter((line) => /sub=1/.test(line)).length === 1,
      "only the other one's subscription is left");
    await assert.rejects(locks.acquire("more", { wait: 100 }));
    assert.equal(taken.lost, undefined);
    await keeper.close();
  });
}

for (const name of ["ioredis, RESP2", "node-redis, RESP3"]) {
  testWithServer(`a client that opens again has locks that are renewed, and hears of their loss (${name})`, async ({ port, connect: plainly }) => {
    const { client, end } = await clients[name](port), plain = plainly();
    const locks = new Locks(client);
    await locks.acquire("door");
    const waits = assert.rejects(locks.acquire("door"), ClosedError);
    await waitFor(async () => (await info(plain, "door")).waiters === 1, "it waits");
    const closed = new Promise((resolve) => client.once("end", resolve));
    await Promise.all([closed, end()]);
    await assert.rejects(locks.acquire("more"), ClosedError);
    await client.connect();
    const held = await locks.acquire("again", { lease: 1000 });
    const kept = await locks.acquire("kept");
    await waits;
    await waitFor(async () => held.lost || Number(/lock\.extend:calls=(\d+)/.exec(await plain.info("commandstats"))?.[1]) >= 4, "renewals");
    assert.equal(held.lost, undefined);
    assert.equal((await info(plain, "again"))?.fence, held.fence);
    const begin = performance.now();
    await plain.call("LOCK.BREAK", "kept");
    await waitFor(() => kept.lost, "it hears");
    assert(performance.now() - begin < 5000, "not by its next renewal");
    await locks.close();
    end();
  });
}

testWithLocks("a lost lock ends the work inside, but not the release there, and is told once", async (locks, other) => {
  let told = 0, inner;
  await assert.rejects(locks.using("outer", {}, async (outer) => {
    outer.signal.addEventListener("abort", () => (told += 1));
    await locks.using("inner", { wait: 1000 }, async (held) => {
      inner = held;
      await other.call("LOCK.BREAK", "outer");
      await sleep(60_000, undefined, { signal: outer.signal });
    });
  }), (error) => error instanceof LockLostError && error.message.startsWith("outer"));
  assert.deepEqual([told, inner.lost, await info(other, "inner")], [1, undefined, null]);
});

testWithLocks("a lock is lost at the end of its lease, though no timer could run", async (locks) => {
  const begin = performance.now(), held = await locks.acquire("door", { lease: 200 });
  while (performance.now() < begin + 200 || held.lost === undefined) assert(performance.now() < begin + 60_000);
  await assert.rejects(held.release(), LockLostError);
});

testWithServer("what a listener throws goes to the process, and hinders no lock", async ({ port }) => {
  const program = `
    import assert from "node:assert/strict";
    import { Redis } from "ioredis";
    import { Locks } from "redislock-client";
    const client = new Redis(${port}), locks = new Locks(client);
    const thrown = new Promise((resolve) => process.on("uncaughtException", resolve));
    const held = await locks.acquire("door"), inner = await locks.acquire("inner");
    let told = 0;
    held.signal.addEventListener("abort", () => { throw new RangeError("of the user"); });
    held.signal.addEventListener("abort", () => (told += 1));
    await client.call("LOCK.BREAK", "door");
    assert.equal((await thrown).message, "of the user");
    assert.equal(told, 1);
    await locks.using("door", { wait: 1000 }, () => {});
    await inner.extend();
    await locks.close();
    await client.quit();`;
  execFileSync(process.execPath, ["--input-type=module", "-e", program], { cwd: import.meta.dirname, timeout: 60_000 });
});

testWithServer("a MULTI of the client takes none of our commands in", async ({ connect }) => {
  const client = connect(), other = connect(), locks = new Locks(client);
  client.multi({ pipeline: false });
  await locks.using("door", {}, async () => assert((await info(other, "door")).owner));
  assert.equal(await info(other, "door"), null);
  assert.deepEqual(await client.exec(), []);
  await locks.close();
});

testWithServer("locks are in the database that the client has selected", async ({ connect }) => {
  const client = connect(), locks = new Locks(client);
  await client.select(3);
  await locks.using("door", {}, async () => assert((await info(client, "door")).owner));
  await locks.close();
});

testWithServer("locks connect with the password that auth() said last", async ({ connect }) => {
  const admin = connect();
  await admin.call("ACL", "SETUSER", "app", "on", ">old", "~*", "&*", "+@all");
  const client = connect({ username: "app", password: "old" }), locks = new Locks(client);
  await locks.using("door", {}, () => {});
  await admin.call("ACL", "SETUSER", "app", "<old", ">new");
  await client.auth("app", "new");
  const mine = await client.client("ID");
  for (const [, id] of (await admin.call("CLIENT", "LIST")).matchAll(/^id=(\d+) .*user=app /gm)) {
    if (id !== String(mine)) await admin.call("CLIENT", "KILL", "ID", id);
  }
  const held = await locks.acquire("door", { wait: 20_000 });
  await waitFor(async () => (await admin.call("CLIENT", "LIST")).includes("sub=1"), "it listens again");
  await admin.call("LOCK.BREAK", "door");
  await waitFor(() => held.lost, "it hears");
  await locks.close();
});

testWithServer("a program that closes its client ends by itself", async ({ port }) => {
  const program = `
    import { Redis } from "ioredis";
    import { Locks } from "redislock-client";
    const client = new Redis(${port});
    const locks = new Locks(client);
    await locks.using("door", {}, () => {});
    await client.quit();`;
  execFileSync(process.execPath, ["--input-type=module", "-e", program], { cwd: import.meta.dirname, timeout: 60_000 });
});

for (const name of ["ioredis, RESP2", "node-redis, RESP3"]) {
  testWithServer(`a server that is away for long is asked over two connections, and not over ever more (${name})`, async ({ port, connect: plainly }) => {
    const before = await proxy(port), { client, end } = await clients[name](before.port), { duplicate } = client, alive = new Set();
    let made = 0, again;
    client.on("error", () => {});
    client.duplicate = (...options) => {
      const line = duplicate.apply(client, options), how = line.destroy ? "destroy" : "disconnect", close = line[how];
      line[how] = (reconnect) => (reconnect || alive.delete(line), close.call(line, reconnect));
      made += 1;
      alive.add(line);
      return line;
    };
    const { setInterval } = globalThis, locks = new Locks(client);
    globalThis.setInterval = (call, time) => setInterval(call, time / 20);
    try {
      await locks.using("door", {}, () => {});
      before.end();
      await waitFor(() => {
        assert(alive.size <= 2, `${alive.size} of ${made}`);
        return made >= 12;
      }, "both are replaced again and again");
      again = await proxy(port, before.port);
      await assert.rejects(locks.using("door", {}, async (held) => {
        await plainly().call("LOCK.BREAK", "door");
        await waitFor(() => held.lost, "it hears again");
      }), LockLostError);
    } finally {
      globalThis.setInterval = setInterval;
      await locks.close();
      end();
      before.end();
      again?.end();
    }
  });
}
