// Observers that throw or end their lock, and OpenTelemetry's SDK. (conformance/driver/scenarios_observer.py tests the events.)
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Locks } from "redislock-client";
import { openTelemetry } from "redislock-client/opentelemetry";
import { clients, testWithServer, waitFor } from "./support.mjs";

const { version } = JSON.parse(readFileSync(new URL("../../../clients/node/package.json", import.meta.url)));
context.setGlobalContextManager(new AsyncLocalStorageContextManager());

function telemetry() {
  const memory = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE), spans = new InMemorySpanExporter();
  const reader = new PeriodicExportingMetricReader({ exporter: memory, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  return {
    meterProvider, tracerProvider, spans,
    /** The value of a metric with these attributes; for a histogram, the count. */
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

testWithServer("an observer that ends the wait which it is told of ends it, though the lock's message has come already", async ({ connect }) => {
  const client = connect(), listener = connect(), other = connect(), heard = [], stop = new AbortController();
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
      if (reply === "QUEUED") await other.call("LOCK.RELEASE", "door", "other").then(() => message); // the release overtakes the reply
      return reply;
    },
  };
  const observer = {
    waiting: () => (heard.push("waiting"), stop.abort()), acquired: () => heard.push("acquired"), refused: (lock, waited, outcome) => heard.push(outcome),
  };
  const locks = new Locks(connection, { observer });
  await other.call("LOCK.ACQUIRE", "door", "OWNER", "other");
  await assert.rejects(locks.acquire("door", { signal: stop.signal }));
  await locks.close();
  assert.deepEqual(heard, ["waiting", "cancelled"]);
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

for (const name of ["ioredis, RESP2", "node-redis, RESP3"]) {
  testWithServer(`OpenTelemetry: a wait, a refusal, a loss (${name})`, async ({ port, connect }) => {
    const { client, end } = await clients[name](port), { metric, spans, ...providers } = telemetry(), other = connect();
    const observer = openTelemetry({ name: (key) => key.split(":")[0], ...providers }), locks = new Locks(client, { observer });
    const { acquired } = observer, callers = [];
    observer.acquired = (...what) => (callers.push(trace.getSpan(context.active())), acquired(...what));
    const first = await locks.acquire(["door:1", "step:1"]), door = { mode: "exclusive", name: "door" };
    const parent = providers.tracerProvider.getTracer("test").startSpan("request");
    const next = context.with(trace.setSpan(context.active(), parent), () => locks.acquire("door:1", { lease: 30_000 }));
    await waitFor(async () => (await metric("redislock.waiting", door)) === 1, "it is counted");
    assert.equal(await metric("redislock.held", door), 1);
    await first.release();
    const second = await next;
    assert.deepEqual(callers, [undefined, parent]);
    assert.deepEqual([await metric("redislock.waiting", door), await metric("redislock.held", door)], [0, 1]);
    assert.equal(await metric("redislock.wait.duration", { ...door, outcome: "acquired" }), 2);
    const [span, more] = spans.getFinishedSpans();
    assert.equal(more, undefined); // the free lock has no span
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
    end();
  });
}
