// Tests programs of docs/programs: two workers of which one is killed, and the change from an old lock to the new one.
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue } from "bullmq";
import Redlock from "redlock";
import { Locks } from "redislock-client";
import { both } from "./docs/both.mjs";
import { testWithServer, waitFor } from "./support.mjs";

/** A worker of the queue. It notes when each job begins and ends. */
async function customersWorker(port) {
  const { Redis } = await import("ioredis"), { customers } = await import("./docs/customers.mjs");
  const connection = new Redis(port, { maxRetriesPerRequest: null });
  const work = async ({ id, data: { customer, hangs }, attemptsMade, stalledCounter }, { fence }) => {
    await connection.rpush(`log:${customer}`, `begin ${id} ${fence} ${process.pid}`);
    if (hangs && stalledCounter === 0) await new Promise(() => {});
    await sleep(5);
    await connection.rpush(`log:${customer}`, `end ${id} ${fence}`);
  };
  const often = { stalledInterval: 1000, lockDuration: 3000, maxStalledCount: 10 };
  customers("invoices", new Locks(connection), work, { connection, concurrency: 20, ...often });
}

if (process.argv[2] === "worker") await customersWorker(Number(process.argv[3]));
else {
  testWithServer("BullMQ: one job of a customer at a time, though a worker is killed", async ({ port, connect }) => {
    const connection = connect({ maxRetriesPerRequest: null }), queue = new Queue("invoices", { connection, defaultJobOptions: { attempts: 10 } });
    const log = async (customer) => (await connection.lrange(`log:${customer}`, 0, -1)).map((line) => line.split(" "));
    await connection.call("CONFIG", "SET", "lock.default-lease", 4000);
    const workers = [1, 2].map(() => fork(import.meta.filename, ["worker", port], { execArgv: [] }));
    try {
      const [first, hangs] = [await queue.add("invoice", { customer: 0 }), await queue.add("invoice", { customer: 1, hangs: true })];
      const [[, , , holder]] = await waitFor(async () => (await log(1)).length && log(1), "the job that hangs has begun");
      const jobs = Array.from({ length: 20 }, (_, number) => ({ name: "invoice", data: { customer: number % 2 } }));
      await queue.addBulk(jobs);
      workers.find(({ pid }) => pid === Number(holder)).kill("SIGKILL");
      await waitFor(async () => (await queue.getCompletedCount()) === 22, "all jobs are done");
      for (const customer of [0, 1]) {
        const lines = await log(customer);
        for (const [at, [what, id, fence]] of lines.entries()) {
          if (what === "end") assert.deepEqual(lines[at - 1].slice(0, 3), ["begin", id, fence], "two jobs of a customer at a time");
        }
        // On a busy machine, BullMQ may take a job for stalled, and run it twice.
        assert.equal(new Set(lines.filter(([what]) => what === "end").map(([, id]) => id)).size, 11);
      }
      assert(first.id && (await log(1)).some(([what, id], at) => what === "begin" && id === hangs.id && at > 0), "it was done again");
    } finally {
      for (const worker of workers) worker.kill("SIGKILL");
      await queue.close();
      await connection.call("CONFIG", "SET", "lock.default-lease", 30_000);
    }
  });

  testWithServer("from node-redlock in two steps: never two holders", async ({ connect }) => {
    const client = connect(), redlock = new Redlock([client], { retryDelay: 20, automaticExtensionThreshold: 1000 });
    const [one, two] = [new Locks(client), new Locks(client)], lease = 2000;
    let inside = 0, done = 0;
    const work = async (long) => {
      assert.equal((inside += 1), 1, "two are inside");
      await sleep(long ? 1.3 * lease : 5);
      inside -= 1;
      done += 1;
    };
    const old = () => redlock.using(["lock:door"], lease, () => work());
    const bothOf = (long) => both(redlock, one, "door", () => work(long), { lease, wait: 60_000 });
    const alone = () => two.using("redislock:door", { lease }, () => work());
    // node-redlock counts a lease from its first try, so no wait can be longer than the lease.
    const patient = (way, long) => way(long).catch((error) => (error.name === "ExecutionError" ? patient(way, long) : Promise.reject(error)));
    const beside = (...ways) => Promise.all(ways.flatMap((way) => Array.from({ length: 10 }, (_, number) => patient(way, number === 0))));
    await beside(old, bothOf);
    await beside(bothOf, alone);
    assert.equal(done, 40);
    await Promise.all([one.close(), two.close()]);
  });
}
