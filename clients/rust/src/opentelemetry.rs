//! Shows locks in OpenTelemetry.

use std::time::{Duration, SystemTime};

use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::metrics::{Counter, Histogram, UpDownCounter};
use opentelemetry::trace::{Span, SpanBuilder, SpanKind, Status, Tracer};
use opentelemetry::{InstrumentationScope, KeyValue};

use crate::{Error, Observed, Observer};

type Name = dyn Fn(&[u8]) -> String + Send + Sync;

/// An [`Observer`] that shows in OpenTelemetry how long acquires wait, how long locks are held, and what is lost. It uses the providers that
/// are the global ones when it is made.
pub struct OpenTelemetry {
    waits: Histogram<f64>,
    holds: Histogram<f64>,
    waiting: UpDownCounter<i64>,
    held: UpDownCounter<i64>,
    lost: Counter<u64>,
    tracer: BoxedTracer,
    name: Option<Box<Name>>,
}

impl Default for OpenTelemetry {
    fn default() -> Self {
        let scope =
            InstrumentationScope::builder("redislock").with_version(env!("CARGO_PKG_VERSION")).build();
        let meter = global::meter_with_scope(scope.clone());
        let histogram = |name: &'static str, description: &'static str| {
            let buckets = vec![0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(description);
            histogram.with_boundaries(buckets).build()
        };
        let number = |name: &'static str, unit: &'static str, description: &'static str| {
            meter.i64_up_down_counter(name).with_unit(unit).with_description(description).build()
        };
        let lost = meter.u64_counter("redislock.lost").with_unit("{lock}");
        Self {
            waits: histogram("redislock.wait.duration", "From the call to the lock, or to the refusal."),
            holds: histogram("redislock.hold.duration", "From the lock to its release, or loss."),
            waiting: number("redislock.waiting", "{waiter}", "Acquires that wait for a lock."),
            held: number("redislock.held", "{lock}", "Locks that are held."),
            lost: lost.with_description("Locks that were lost.").build(),
            tracer: global::tracer_with_scope(scope),
            name: None,
        }
    }
}

impl OpenTelemetry {
    /// Adds the attribute `redislock.name`: this function computes it from a lock's first key. There should be few different names.
    pub fn named(self, name: impl Fn(&[u8]) -> String + Send + Sync + 'static) -> Self {
        Self { name: Some(Box::new(name)), ..self }
    }

    fn of(&self, lock: &Observed, more: Option<KeyValue>) -> Vec<KeyValue> {
        let name = self.name.as_ref().zip(lock.keys().first());
        let name = name.map(|(name, key)| KeyValue::new("redislock.name", name(key)));
        let mode = KeyValue::new("redislock.mode", lock.mode());
        more.into_iter().chain([mode]).chain(name).collect()
    }

    fn wait_ends(&self, lock: &Observed, waited: Duration, outcome: &'static str, failed: Option<&Error>) {
        let attributes = self.of(lock, Some(KeyValue::new("redislock.outcome", outcome)));
        self.waits.record(waited.as_secs_f64(), &attributes);
        if !lock.waited() {
            return;
        }
        self.waiting.add(-1, &self.of(lock, None));
        let end = SystemTime::now();
        let mut span = self.tracer.build_with_context(
            SpanBuilder::from_name("redislock.wait")
                .with_kind(SpanKind::Client)
                .with_start_time(end.checked_sub(waited).unwrap_or(end))
                .with_attributes(attributes),
            &lock.context,
        );
        if let Some(error) = failed {
            span.set_status(Status::error(error.to_string()));
        }
        span.end_with_timestamp(end);
    }

    fn hold_ends(&self, lock: &Observed, held: Duration, outcome: &'static str) {
        let outcome = KeyValue::new("redislock.outcome", outcome);
        self.holds.record(held.as_secs_f64(), &self.of(lock, Some(outcome)));
        self.held.add(-1, &self.of(lock, None));
    }
}

impl Observer for OpenTelemetry {
    fn waiting(&self, lock: &Observed) {
        self.waiting.add(1, &self.of(lock, None));
    }

    fn acquired(&self, lock: &Observed, waited: Duration, _fence: u64) {
        self.held.add(1, &self.of(lock, None));
        self.wait_ends(lock, waited, "acquired", None);
    }

    fn refused(&self, lock: &Observed, waited: Duration, outcome: &'static str, error: &Error) {
        let failed = !matches!(outcome, "timeout" | "busy" | "cancelled");
        self.wait_ends(lock, waited, outcome, failed.then_some(error));
    }

    fn released(&self, lock: &Observed, held: Duration) {
        self.hold_ends(lock, held, "released");
    }

    fn lost(&self, lock: &Observed, held: Duration, reason: &str, _error: &Error) {
        let reason = KeyValue::new("redislock.reason", reason.to_string());
        self.lost.add(1, &self.of(lock, Some(reason)));
        self.hold_ends(lock, held, "lost");
    }
}
