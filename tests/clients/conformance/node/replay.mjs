// Replays traces with the core of the package, without a server. `../driver/traces.py` sets the clock, and describes the lines.
import { createInterface } from "node:readline";
import {
  ClosedError, DeadlockError, LockLostError, Locks, NoModuleError, NotAcquiredError, NotConfirmedError, TooOldError,
} from "redislock-client";

let time = 0, late = 0; // ms. A little later than a whole millisecond, so that rounding makes no timer late
let timers = new Map();
let names = 0, done = [];
performance.now = () => time + late;
globalThis.setTimeout = (call, pause = 0) => {
  const timer = {};
  timers.set(timer, { call, due: performance.now() + pause });
  return timer;
};
globalThis.clearTimeout = (timer) => timers.delete(timer);
crypto.randomUUID = () => `fresh-${(names += 1)}`;

const tell = (...said) => done.push([time, ...said]);
const settled = () => new Promise(setImmediate);

const outcomes = [
  [NotAcquiredError, "not acquired"], [ClosedError, "closed"], [LockLostError, "lost"], [DeadlockError, "deadlock"],
  [NotConfirmedError, "not confirmed"], [NoModuleError, "no module"], [TooOldError, "too old"],
];
const outcome = (error) =>
  error.cause instanceof ClosedError ? "closed"
  : error.name === "AbortError" ? "cancelled" : outcomes.find(([kind]) => error instanceof kind)?.[1] ?? "error";

class Bench {
  #locks = new Locks(this, {});
  #acquires = [];
  #sent = [];
  #ready = false;
  #opened;
  #events;
  #closes = false;
  closed = false;

  // The interface of a connection that the package needs.
  async open(channel, events) {
    this.#events = events;
    if (!this.#ready) await new Promise((resolve) => (this.#opened = resolve));
  }

  send(key, words) {
    return new Promise((resolve, reject) => {
      const answer = (reply) => {
        if (reply?.error ?? reply?.["no answer"]) reject(new Error(reply.error ?? "no answer"));
        else resolve(reply);
      };
      const session = words.includes("SESSION") ? ["session"] : []; // here, all commands share one connection
      tell("send", this.#sent.push(answer), words.join(" "), ...session);
    });
  }

  watch() {
    return () => {};
  }

  // The events that a trace tells.
  subscribed() {
    this.#ready = true;
    if (this.#opened) this.#opened();
    else this.#events?.again();
    this.#opened = undefined;
  }

  heard(message) {
    this.#events?.hear(message);
  }

  answer(number, reply) {
    this.#sent[number - 1](reply);
  }

  async acquire({ keys, fresh, max_hold: maxHold, ...options }) {
    const canceller = new AbortController(), acquire = { cancel: () => canceller.abort() }, number = this.#acquires.push(acquire);
    const acquired = this.#locks.acquire(keys, { ...options, maxHold, signal: canceller.signal });
    tell("owner", number, options.owner ?? `fresh-${names}`);
    try {
      const held = (acquire.held = await acquired);
      tell("acquired", number, held.fences, held.slot ?? null);
      const lost = () => {
        tell("lost", number, this.#closes ? "closed" : outcome(held.signal.reason));
        held.release().catch(() => {});
      };
      if (held.signal.aborted) lost();
      else held.signal.addEventListener("abort", lost);
    } catch (error) {
      tell("refused", number, outcome(error));
    }
  }

  async extend(number, lease) {
    try {
      tell("extended", number, await this.#acquires[number - 1].held.extend(lease ?? undefined));
    } catch (error) {
      tell("not extended", number, outcome(error));
    }
  }

  check(number) {
    return this.#acquires[number - 1].held.lost;
  }

  async release(number) {
    try {
      await this.#acquires[number - 1].held.release();
      tell("released", number);
    } catch (error) {
      tell("not released", number, outcome(error));
    }
  }

  cancel(number) {
    this.#acquires[number - 1].cancel();
  }

  close() {
    this.#closes = true;
    void this.#locks.close();
  }

  time() {}

  believe() {
    for (const [at, acquire] of this.#acquires.entries()) {
      const { held } = acquire, until = !held || held.loss || held.parting ? undefined : held.until === Infinity ? null : Math.round(held.until);
      if (until !== undefined && until !== acquire.until) tell("believes", at + 1, until);
      acquire.until = until;
    }
  }
}

const next = () => [...timers].reduce((first, timer) => (timer[1].due < first[1].due ? timer : first), [undefined, { due: Infinity }]);

let bench;
for await (const line of createInterface({ input: process.stdin })) {
  const [at, what, ...given] = JSON.parse(line);
  if (at === "new") {
    timers = new Map();
    bench = new Bench();
    continue;
  }
  late = at === time ? late + 1e-6 : 0;
  time = at;
  done = [];
  void bench[what](...given);
  await settled();
  let turns = 0;
  for (let [timer, { call, due }] = next(); due <= performance.now(); [timer, { call, due }] = next()) {
    if ((turns += 1) > 1000) throw new Error("it never comes to rest");
    timers.delete(timer);
    call();
    await settled();
  }
  bench.believe();
  const [, { due }] = next();
  process.stdout.write([...done, ["next", due === Infinity ? null : Math.ceil(due - 0.001)]].map((said) => `${JSON.stringify(said)}\n`).join(""));
}
process.exit();
