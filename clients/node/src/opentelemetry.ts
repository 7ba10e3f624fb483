// Metrics and spans of locks: `new Locks(client, { observer: openTelemetry() })`. Needs the API of OpenTelemetry.
import { SpanKind, SpanStatusCode, metrics, trace, type Attributes, type MeterProvider, type Span, type TracerProvider } from "@opentelemetry/api";
import type { Observed, Observer, Outcome } from "./observer.js";

export interface OpenTelemetrySettings {
  /** Computes the attribute `redislock.name` from a lock's first key. By default there is none, since metrics need few different names. */
  name?: ((key: string) => string) | undefined;
  /** By default the global ones. */
  meterProvider?: MeterProvider | undefined;
  tracerProvider?: TracerProvider | undefined;
}

/** The version in package.json: a test compares them. */
const VERSION = "0.1.0";
const SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300];
const EXPECTED: unknown[] = ["timeout", "busy", "cancelled"];

export function openTelemetry({ name, meterProvider, tracerProvider }: OpenTelemetrySettings = {}): Observer {
  const meter = (meterProvider ?? metrics).getMeter("redislock", VERSION);
  const tracer = (tracerProvider ?? trace).getTracer("redislock", VERSION);
  const histogram = (what: string, description: string) =>
    meter.createHistogram(what, { unit: "s", description, advice: { explicitBucketBoundaries: SECONDS } });
  const waits = histogram("redislock.wait.duration", "From the call of acquire to its end");
  const holds = histogram("redislock.hold.duration", "From the grant to its end");
  const waiting = meter.createUpDownCounter("redislock.waiting", { unit: "{waiter}", description: "Who waits for a lock now" });
  const holding = meter.createUpDownCounter("redislock.held", { unit: "{lock}", description: "Locks that are held now" });
  const losses = meter.createCounter("redislock.lost", { unit: "{lock}", description: "Locks that ended before their release" });
  const spans = new WeakMap<Observed, Span>();

  const of = (lock: Observed, more?: Attributes) => ({
    "redislock.mode": lock.mode, ...(name && { "redislock.name": name(lock.keys[0]!) }), ...more,
  });
  const waited = (lock: Observed, time: number, outcome: Outcome | "acquired", error?: unknown) => {
    waits.record(time / 1000, of(lock, { "redislock.outcome": outcome }));
    const span = spans.get(lock);
    if (!span) return;
    waiting.add(-1, of(lock));
    span.setAttribute("redislock.outcome", outcome);
    if (error && !EXPECTED.includes(outcome)) span.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
    span.end();
  };
  const ended = (lock: Observed, time: number, outcome: string) => {
    holds.record(time / 1000, of(lock, { "redislock.outcome": outcome }));
    holding.add(-1, of(lock));
  };
  return {
    waiting(lock) {
      spans.set(lock, tracer.startSpan("redislock.wait", { kind: SpanKind.CLIENT, attributes: of(lock) }));
      waiting.add(1, of(lock));
    },
    acquired(lock, time) {
      waited(lock, time, "acquired");
      holding.add(1, of(lock));
    },
    refused: waited,
    released: (lock, time) => ended(lock, time, "released"),
    lost(lock, time, { reason }) {
      ended(lock, time, "lost");
      losses.add(1, of(lock, { "redislock.reason": reason }));
    },
  };
}
