// The program of the conformance scenarios. Its argument is the client: ioredis or node-redis.
import { createInterface } from "node:readline";
import {
  DeadlockError, LockLostError, Locks, NoModuleError, NotAcquiredError, NotConfirmedError, TooOldError,
} from "redislock-client";

// Load only the client that is used, because loading takes most of the program's start.
const [, , library] = process.argv;
const { Cluster, Redis } = library === "ioredis" ? await import("ioredis") : {};
const { createClient, createCluster, createSentinel } = library === "node-redis" ? await import("redis") : {};

const say = (event, fields) => process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
const ignore = () => {};

const address = (url) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) });
const clients = {
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
  [NotAcquiredError, "not_acquired"], [LockLostError, "lost"], [DeadlockError, "deadlock"], [NotConfirmedError, "not_confirmed"],
  [NoModuleError, "no_module"], [TooOldError, "too_old"], [TypeError, "refused"], [RangeError, "refused"],
];

function tell(task, error) {
  const event = events.find(([kind]) => error instanceof kind)?.[1] ?? (error.name === "AbortError" ? "cancelled" : "error");
  say(event, { task, message: String(error), reason: error.message, cycle: error.cycle });
}

const observer = {};
for (const event of ["waiting", "acquired", "refused", "released", "lost"]) {
  observer[event] = (lock, ms, ...more) => {
    const what = [event, lock.keys.join(), lock.mode, ...more.filter((one) => typeof one === "string")].join(" ");
    say("observed", { what, ms, reason: more.find((one) => one instanceof LockLostError)?.reason });
  };
}

function options({ wait, lease, max_hold: maxHold, shared, detect, session, renew, limit, slot, label, owner, sync }) {
  return { wait, lease, maxHold, shared, detect, session, renew, limit, slot, label, owner, sync };
}

class Task {
  #canceller = new AbortController();

  constructor(locks, command) {
    this.name = command.task;
    this.over = new Promise((resolve) => (this.release = resolve));
    this.#run(locks, command).catch((error) => tell(this.name, error));
  }

  async #run(locks, command) {
    const { signal } = this.#canceller;
    await locks.using(command.keys, { ...options(command), signal }, async (held) => {
      this.held = held;
      say("acquired", { task: this.name, owner: held.owner, fences: held.fences, slot: held.slot ?? null });
      signal.addEventListener("abort", this.release);
      held.signal.addEventListener("abort", this.release);
      if (!held.signal.aborted) await this.over;
    });
    say(signal.aborted ? "cancelled" : "released", { task: this.name });
  }

  cancel() {
    this.#canceller.abort();
  }

  extend({ lease }) {
    this.held.extend(lease).then((given) => say("extended", { task: this.name, lease: given }), (error) => tell(this.name, error));
  }
}

let client, locks;
const tasks = new Map();
const commands = {
  async open(command) {
    client = clients[command.kind](command).on("error", ignore);
    if (library === "node-redis") await client.connect();
    locks = new Locks(client, command.observe ? { observer } : {});
    say("opened");
  },
  async close() {
    await locks?.close();
    if (client) clients.end(client);
    locks = client = undefined;
    say("closed");
  },
  acquire: (command) => tasks.set(command.task, new Task(locks, command)),
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.do in commands) await commands[command.do](command);
  else tasks.get(command.task)[command.do](command);
}
await commands.close(); // after this, nothing keeps the process alive
