// The program of the conformance scenarios. Its argument is the client: ioredis, node-redis, or `core`, the package's core without a server.
import { createInterface } from "node:readline";
import {
  ClosedError, DeadlockError, LockLostError, Locks, NoModuleError, NotAcquiredError, NotConfirmedError, TooOldError,
} from "redislock-client";

// Load only the client that is used, because loading takes most of the program's start.
const [, , library] = process.argv;
const core = library === "core" ? await import("./core.mjs") : undefined;
const { Cluster, Redis } = library === "ioredis" ? await import("ioredis") : {};
const { createClient, createCluster, createSentinel } = library === "node-redis" ? await import("redis") : {};

const say = (event, fields) => process.stdout.write(`${JSON.stringify({ event, at: core?.now(), ...fields })}\n`);
const ignore = () => {};

const address = (url) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) });
const clients = {
  core: { single: () => core.connect(say) },
  ioredis: {
    single: ({ urls }) => new Redis(urls[0]),
    sentinel: ({ urls, service }) => new Redis({ sentinels: urls.map(address), name: service }),
    cluster: ({ urls }) => new Cluster(urls.map(address)),
    end: (client) => client.disconnect(),
  },
  "node-redis": {
    single: ({ urls }) => createClient({ url: urls[0] }),
    sentinel: ({ urls, service }) => createSentinel({ name: service, sentinelRootNodes: urls.map(address), masterPoolSize: 3 }),
    cluster: ({ urls }) => createCluster({ rootNodes: urls.map((url) => ({ url })) }),
    end: (client) => client.destroy(),
  },
}[library];

const events = [
  [NotAcquiredError, "not_acquired"], [ClosedError, "closed"], [LockLostError, "lost"], [DeadlockError, "deadlock"],
  [NotConfirmedError, "not_confirmed"], [NoModuleError, "no_module"], [TooOldError, "too_old"], [TypeError, "refused"], [RangeError, "refused"],
];

function tell(what, task, error) {
  const event = events.find(([kind]) => error instanceof kind || error.cause instanceof kind)?.[1];
  say(event ?? (error.name === "AbortError" ? "cancelled" : "error"), { what, task, message: String(error), reason: error.message, cycle: error.cycle });
}

const observer = {};
for (const event of ["waiting", "acquired", "refused", "released", "lost"]) {
  observer[event] = (lock, ms, ...more) => {
    const what = [event, lock.keys.join(), lock.mode, ...more.filter((one) => typeof one === "string")].join(" ");
    say("observed", { what, ms, reason: more.find((one) => one instanceof LockLostError)?.reason });
  };
}

class Task {
  #canceller = new AbortController();

  async acquire({ task, keys, wait, lease, max_hold: maxHold, shared, detect, session, renew, limit, slot, label, owner, sync }) {
    this.name = task;
    const { signal } = this.#canceller;
    const options = { wait, lease, maxHold, shared, detect, session, renew, limit, slot, label, owner, sync, signal };
    try {
      const held = (this.held = await locks.acquire(keys, options));
      say("acquired", { task, owner: held.owner, fences: held.fences, slot: held.slot ?? null });
      const lost = () => {
        tell("lost", task, held.signal.reason);
        held.release().catch(ignore);
      };
      if (held.signal.aborted) lost();
      else held.signal.addEventListener("abort", lost);
    } catch (error) {
      tell("refused", task, error);
    }
  }

  async release(_, event = "released") {
    try {
      await this.held.release();
      say(event, { task: this.name });
    } catch (error) {
      tell("not released", this.name, error);
    }
  }

  cancel() {
    if (this.held) void this.release({}, "cancelled");
    else this.#canceller.abort();
  }

  async extend({ lease }) {
    try {
      say("extended", { task: this.name, lease: await this.held.extend(lease ?? undefined) });
    } catch (error) {
      tell("not extended", this.name, error);
    }
  }

  check() {
    return this.held.lost;
  }
}

let client, locks, tasks;
const commands = {
  async open(command) {
    client = clients[command.kind](command).on("error", ignore);
    if (library === "node-redis") await client.connect();
    locks = new Locks(client, command.observe ? { observer } : {});
    tasks = new Map();
    say("opened");
  },
  async close() {
    await locks?.close();
    if (locks) clients.end?.(client);
    locks = undefined;
    say("closed");
  },
  acquire(command) {
    tasks.set(command.task, new Task());
    void tasks.get(command.task).acquire(command);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line), { do: what, task } = command;
  core?.set(command.at);
  const done = (what in commands ? commands : tasks.get(task) ?? client)[what](command);
  if (core) await core.settle(command, tasks);
  else if (what in commands) await done;
}
if (core) process.exit();
await commands.close(); // after this, nothing keeps the process alive
