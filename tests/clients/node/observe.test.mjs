// The observer, and OpenTelemetry's SDK, on a real server.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Locks, LockLostError, NotAcquiredError } from "redislock-client";
import { openTelemetry } from "redislock-client/opentelemetry";
import { clients, proxy, testWithServer, waitFor } from "./support.mjs";

const { version } = JSON.parse(readFileSync(new URL("../../../clients/node/package.json", import.meta.url)));
context.setGlobalContextManager(new AsyncLocalStorageContextManager());

/** What an observer heard, one string an event. `times` are in ms, and errors behind. */
function ear() {
  const heard = [], times = [], errors = [], seen = new Map();
  const hear = (event) => (lock, ...more) => {
    if (!seen.has(lock)) seen.set(lock, lock.keys.join());
    times.push(more.find((one) => typeof one === "number"));
    errors.push(more.find((one) => one instanceof Error));
    heard.push([event, seen.get(lock), lock.mode, ...more.filter((one) => typeof one === "string")].join(" "));
  };
  const events = ["waiting", "acquired", "refused", "released", "lost"];
  return { heard, times, errors, observer: Object.fromEntries(events.map((event) => [event, hear(event)])) };
}

function telemetry() {
  const memory = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE), spans = new InMemorySpanExporter();
  const reader = new PeriodicExportingMetricReader({ exporter: memory, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  return {
    meterProvider, tracerProvider, spans,
    /** The value of a metric's point with these attributes: its count, if it is a histogram. */
    async metric(name, attributes) {
      memory.reset();
      await reader.forceFlush();
      const metrics = memory.getMetrics()[0]?.scopeMetrics.find(({ scope }) => scope.name === "redislock" && scope.version === version)?.metrics ?? [];
      const { dataPoints } = metrics.find(({ descriptor }) => descriptor.name === name) ?? { dataPoints: [] };
      const isAsked = ({ attributes: has }) => Object.entries(attributes).every(([key, value]) => has[`redislock.${key}`] === value);
      const value = dataPoints.find(isAsked)?.value;
      return value?.count ?? value;
    },
  };
}

/** A test with that client, and locks that have this observer. */
function testWithObserver(title, observerOf, body) {
  for (const name of ["ioredis, RESP2", "node-redis, RESP3"]) {
    testWithServer(`${title} (${name})`, async ({ port, connect }) => {
      const { client, end } = await clients[name](port), made = observerOf();
      const locks = new Locks(client, { observer: made.observer });
      try {
        await body(locks, made, connect());
      } finally {
        await locks.close();
        end();
      }
    });
  }
}

testWithObserver("each wait and each lock is told, from its begin to its end", ear, async (locks, { heard, times, errors }, other) => {
  const waits = (lock) => waitFor(() => heard.at(-1) === `waiting ${lock}`, "it waits");
  const held = await locks.acquire("door", { limit: 1 });
  assert.equal(await locks.tryAcquire("door", { limit: 1 }), undefined);
  await assert.rejects(locks.acquire("door", { limit: 1, wait: 20 }), NotAcquiredError);
  const stop = new AbortController(), stopped = assert.rejects(locks.acquire("door", { limit: 1, signal: stop.signal }));
  await waits("door limit");
  stop.abort();
  await stopped;
  await assert.rejects(locks.acquire("door", { signal: stop.signal }));
  const next = locks.acquire("door", { limit: 1 });
  await waits("door limit");
  await held.release();
  const second = await next;
  await other.call("LOCK.BREAK", "door");
  await waitFor(() => second.lost, "it is told");
  await assert.rejects(second.release(), LockLostError);
  const both = await locks.acquire(["a", "b"]);
  await other.call("LOCK.ACQUIRE", "taken", "OWNER", "other");
  const ended = assert.rejects(locks.acquire("taken", { shared: true }));
  await waits("taken shared");
  await locks.close();
  await ended;
  await assert.rejects(locks.acquire("late"));
  if (heard[8].startsWith("acquired")) for (const list of [heard, times, errors]) list.splice(8, 0, ...list.splice(9, 1)); // it was faster
  assert.deepEqual(heard.slice(0, 11), [
    "acquired door limit", "refused door limit busy", "waiting door limit", "refused door limit timeout", "waiting door limit",
    "refused door limit cancelled", "refused door exclusive cancelled", "waiting door limit", "released door limit", "acquired door limit",
    "lost door limit",
  ]);
  assert.equal(errors[10].reason, "the server says that it has ended");
  assert.deepEqual(heard.slice(11, 13), ["acquired a,b exclusive", "waiting taken shared"]);
  assert.deepEqual(heard.slice(13).sort(), ["refused late exclusive closed", "refused taken shared closed", "released a,b exclusive"]);
  assert.equal(both.lost.reason, "the locks were closed");
  assert(times[3] >= 20 && times[8] >= 20, "the wait's time, and the time it was held");
});

testWithObserver("a release without a lock, and a deadlock", ear, async (locks, { heard, errors }, other) => {
  const gone = await locks.acquire("gone");
  await other.call("LOCK.RELEASE", "gone", gone.owner);
  await assert.rejects(gone.release(), LockLostError);
  assert.match(errors[1].message, /^gone: NOTHELD /);
  assert.equal(errors[1].reason, "the server says that it is not held");
  await other.set("string", "");
  await assert.rejects(locks.acquire("string"), /WRONGTYPE/);
  const [a, b] = [await locks.acquire("a", { owner: "A" }), await locks.acquire("b", { owner: "B" })];
  const waits = locks.acquire("b", { owner: "A" });
  await waitFor(() => heard.at(-1).startsWith("waiting"), "it waits");
  await assert.rejects(locks.acquire("a", { owner: "B", detect: true }));
  await b.release();
  const again = await waits;
  await again.release();
  await a.release();
  assert.deepEqual(heard.filter((event) => /gone|string|deadlock/.test(event)), [
    "acquired gone exclusive", "lost gone exclusive", "refused string exclusive error", "refused a exclusive deadlock",
  ]);
  assert.deepEqual(heard.slice(-2), ["released b exclusive", "released a exclusive"]);
});

testWithObserver("of two that share a grant, each has one end when the locks are closed", ear, async (locks, { heard }) => {
  const [a, b] = [await locks.acquire("door", { owner: "A" }), await locks.acquire("door", { owner: "A" })];
  await locks.close();
  assert.deepEqual(heard, ["acquired door exclusive", "acquired door exclusive", "released door exclusive", "released door exclusive"]);
  for (const held of [a, b]) await assert.rejects(held.release(), LockLostError);
});

testWithServer("what can't be given back when the locks are closed is lost", async ({ port }) => {
  const door = await proxy(port), { client, end } = await clients["ioredis, RESP2"](door.port), { heard, errors, observer } = ear();
  const locks = new Locks(client, { observer });
  await locks.acquire("door", { lease: 1000 });
  door.end();
  await locks.close();
  end();
  assert.deepEqual([heard, errors[1].reason], [["acquired door exclusive", "lost door exclusive"], "the locks were closed"]);
});

testWithServer("an observer that ends the wait which it is told of ends it, though the lock's message has come already", async ({ connect }) => {
  const client = connect(), listener = connect(), other = connect(), heard = ear(), stop = new AbortController();
  let come;
  const message = new Promise((resolve) => (come = resolve));
  const connection = {
    closed: false, watch: () => () => {},
    async open(channel, { hear }) {
      listener.on("message", (_, said) => (hear(said), come()));
      await listener.subscribe(channel);
    },
    async send(key, [command, ...words]) {
      const reply = await client.call(command, ...words);
      if (reply === "QUEUED") await other.call("LOCK.RELEASE", "door", "other").then(() => message); // it overtakes the reply
      return reply;
    },
  };
  const { waiting } = heard.observer;
  heard.observer.waiting = (lock) => (waiting(lock), stop.abort());
  const locks = new Locks(connection, { observer: heard.observer });
  await other.call("LOCK.ACQUIRE", "door", "OWNER", "other");
  await assert.rejects(locks.acquire("door", { signal: stop.signal }));
  await locks.close();
  assert.deepEqual(heard.heard, ["waiting door exclusive", "refused door exclusive cancelled"]);
  await waitFor(async () => (await other.call("LOCK.INFO", "door")) === null, "it is given back");
});

testWithServer("what an observer throws is logged once a call, and changes nothing", async ({ port }) => {
  const { client, end } = await clients["ioredis, RESP2"](port), logged = [], { error } = console;
  const observer = {
    acquired() {
      throw new RangeError("of the observer");
    },
    async released() {
      throw new RangeError("of the observer, later");
    },
  };
  const locks = new Locks(client, { observer });
  console.error = (...words) => logged.push(words.at(-1).message);
  try {
    assert.equal(await locks.using("door", {}, () => "result"), "result");
    await waitFor(() => logged.length === 2, "both are logged");
  } finally {
    console.error = error;
    await locks.close();
    end();
  }
  assert.deepEqual(logged, ["of the observer", "of the observer, later"]);
});

const measured = () => {
  const made = telemetry();
  return { ...made, observer: openTelemetry({ name: (key) => key.split(":")[0], ...made }) };
};
testWithObserver("OpenTelemetry: a wait, a refusal, a loss", measured, async (locks, { observer, metric, spans, tracerProvider }, other) => {
  const { acquired } = observer, callers = [];
  observer.acquired = (...what) => (callers.push(trace.getSpan(context.active())), acquired(...what));
  const first = await locks.acquire(["door:1", "step:1"]), door = { mode: "exclusive", name: "door" };
  const parent = tracerProvider.getTracer("test").startSpan("request");
  const next = context.with(trace.setSpan(context.active(), parent), () => locks.acquire("door:1", { lease: 30_000 }));
  await waitFor(async () => (await metric("redislock.waiting", door)) === 1, "it is counted");
  assert.equal(await metric("redislock.held", door), 1);
  await first.release();
  const second = await next;
  assert.deepEqual(callers, [undefined, parent]);
  assert.deepEqual([await metric("redislock.waiting", door), await metric("redislock.held", door)], [0, 1]);
  assert.equal(await metric("redislock.wait.duration", { ...door, outcome: "acquired" }), 2);
  const [span, more] = spans.getFinishedSpans();
  assert.equal(more, undefined); // none for the lock that was free
  assert.deepEqual([span.name, span.kind, span.status.code], ["redislock.wait", 2, 0]);
  assert.deepEqual(span.attributes, { "redislock.mode": "exclusive", "redislock.name": "door", "redislock.outcome": "acquired" });
  assert.equal(span.parentSpanContext.spanId, parent.spanContext().spanId);
  assert.deepEqual([span.instrumentationScope.name, span.instrumentationScope.version], ["redislock", version]);

  assert.equal(await locks.tryAcquire("door:1"), undefined);
  assert.equal(await metric("redislock.wait.duration", { ...door, outcome: "busy" }), 1);
  await other.call("LOCK.BREAK", "door:1");
  await waitFor(() => second.lost, "it is told");
  assert.equal(await metric("redislock.lost", { ...door, reason: second.lost.reason }), 1);
  assert.equal(await metric("redislock.hold.duration", { ...door, outcome: "lost" }), 1);
  assert.equal(await metric("redislock.hold.duration", { ...door, outcome: "released" }), 1);
  assert.equal(await metric("redislock.held", door), 0);
  await other.call("LOCK.ACQUIRE", "door:1", "OWNER", "other");
  const ended = assert.rejects(locks.acquire("door:1"));
  await waitFor(async () => (await metric("redislock.waiting", door)) === 1, "it waits");
  await locks.close();
  await ended;
  assert.equal(await metric("redislock.waiting", door), 0);
  const { status, attributes } = spans.getFinishedSpans()[1];
  assert.deepEqual([status.code, attributes["redislock.outcome"]], [2, "closed"]);
});
