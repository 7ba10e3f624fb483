// The core of the package without a server: its clock and its connection do as ../driver/traces.py says.
let time = 0, late = 0; // ms. A little later than a whole millisecond, so that rounding makes no timer late
let timers, names = 0, say;
performance.now = () => time + late;
globalThis.setTimeout = (call, pause = 0) => {
  const timer = {};
  timers.set(timer, { call, due: performance.now() + pause });
  return timer;
};
globalThis.clearTimeout = (timer) => timers.delete(timer);
crypto.randomUUID = () => `fresh-${(names += 1)}`;

export const now = () => time;
const next = () => [...timers].reduce((first, timer) => (timer[1].due < first[1].due ? timer : first), [undefined, { due: Infinity }]);

export function set(at) {
  late = at === time ? late + 1e-6 : 0;
  time = at;
}

/** Does all that can be done now, and says what nobody is told. */
export async function settle({ do: what, task: begun, owner }, tasks) {
  if (what === "acquire") say("owner", { task: begun, owner: owner ?? `fresh-${names}` });
  const settled = () => new Promise(setImmediate);
  await settled();
  let turns = 0;
  for (let [timer, { call, due }] = next(); due <= performance.now(); [timer, { call, due }] = next()) {
    if ((turns += 1) > 1000) throw new Error("it never comes to rest");
    timers.delete(timer);
    call();
    await settled();
  }
  for (const task of tasks.values()) {
    const { held, name } = task, until = !held || held.loss || held.parting ? undefined : held.until === Infinity ? null : Math.round(held.until);
    if (until !== undefined && until !== task.until) say("believes", { task: name, until });
    task.until = until;
  }
  const [, { due }] = next();
  say("next", { until: due === Infinity ? null : Math.ceil(due - 0.001) });
}

export function connect(tell) {
  timers = new Map();
  say = tell;
  return new Connection();
}

/** Commands wait for the trace's answers, and the subscription is confirmed when the trace says so. */
class Connection {
  #sent = [];
  #ready = false;
  #opened;
  #events;
  closed = false;

  on() {
    return this;
  }

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
      // Here, all commands share one connection.
      say("sent", { command: this.#sent.push(answer), words: words.join(" "), session: words.includes("SESSION") });
    });
  }

  watch() {
    return () => {};
  }

  subscribed() {
    this.#ready = true;
    if (this.#opened) this.#opened();
    else this.#events?.again();
    this.#opened = undefined;
  }

  heard({ message }) {
    this.#events?.hear(message);
  }

  answer({ command, reply }) {
    this.#sent[command - 1](reply);
  }

  time() {}
}
