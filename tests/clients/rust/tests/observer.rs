//! Tests what OpenTelemetry's SDK records, and an observer that panics.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry::trace::{FutureExt, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ScopeMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use redis::{Client, Value};
use redislock::{Error, Locks, Observed, Observer, OpenTelemetry, blocking};

const MINUTE: Duration = Duration::from_secs(60);

fn client() -> Client {
    Client::open(std::env::var("REDIS_URL").unwrap()).unwrap()
}

/// The recorded metrics and spans of all tests: each test uses its own names.
struct Seen {
    meters: SdkMeterProvider,
    /// Only one test may export at a time.
    turn: Mutex<()>,
    metrics: InMemoryMetricExporter,
    tracers: SdkTracerProvider,
    spans: InMemorySpanExporter,
}

fn seen() -> &'static Seen {
    static SEEN: OnceLock<Seen> = OnceLock::new();
    SEEN.get_or_init(|| {
        let (metrics, spans) = (InMemoryMetricExporter::default(), InMemorySpanExporter::default());
        let meters = SdkMeterProvider::builder().with_periodic_exporter(metrics.clone()).build();
        let tracers = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        global::set_meter_provider(meters.clone());
        global::set_tracer_provider(tracers.clone());
        Seen { meters, turn: Mutex::default(), metrics, tracers, spans }
    })
}

fn observer() -> OpenTelemetry {
    seen();
    OpenTelemetry::default().named(|key| String::from_utf8_lossy(key).split(':').next().unwrap().to_string())
}

impl Seen {
    /// The sum, or the count, of the data points with these attributes.
    fn of(&self, instrument: &str, name: &str, mode: &str, more: Option<(&'static str, &str)>) -> i64 {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.metrics.reset();
        self.meters.force_flush().unwrap();
        let pair = |(key, value): (&'static str, &str)| KeyValue::new(key, value.to_string());
        let wanted: Vec<_> =
            [("redislock.name", name), ("redislock.mode", mode)].into_iter().chain(more).map(pair).collect();
        let has = |attributes: Vec<&KeyValue>| {
            attributes.len() == wanted.len() && wanted.iter().all(|wanted| attributes.contains(&wanted))
        };
        let exported = self.metrics.get_finished_metrics().unwrap();
        let scopes = exported.iter().flat_map(|all| all.scope_metrics());
        let ours =
            |scope: &&ScopeMetrics| scope.scope().name() == "redislock" && scope.scope().version().is_some();
        let all = scopes.filter(ours).flat_map(|scope| scope.metrics());
        all.filter(|metric| metric.name() == instrument)
            .map(|metric| match metric.data() {
                AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                    let points = sum.data_points().filter(|point| has(point.attributes().collect()));
                    points.map(|point| point.value()).sum()
                }
                AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                    let points = sum.data_points().filter(|point| has(point.attributes().collect()));
                    points.map(|point| point.value() as i64).sum()
                }
                AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                    let points = histogram.data_points().filter(|point| has(point.attributes().collect()));
                    points.map(|point| point.count() as i64).sum::<i64>()
                }
                other => panic!("{other:?}"),
            })
            .sum()
    }

    fn until(&self, wanted: i64, instrument: &str, name: &str, mode: &str) {
        let end = Instant::now() + MINUTE;
        while self.of(instrument, name, mode, None) != wanted {
            assert!(Instant::now() < end, "not within a minute: {wanted} {instrument}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_counts_and_has_a_span_in_the_trace_of_its_caller() {
    let (seen, locks) = (seen(), Locks::new(client()).observer(observer()));
    let held = locks.acquire("wait:1").shared().await.unwrap();
    let parent = seen.tracers.tracer("test").start("caller");
    let caller = Context::new().with_span(parent);
    let trace = caller.span().span_context().clone();
    let wait = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire("wait:1").await.unwrap() }.with_context(caller)
    });
    tokio::task::block_in_place(|| seen.until(1, "redislock.waiting", "wait", "exclusive"));
    held.release().await.unwrap();
    let next = wait.await.unwrap();
    assert_eq!(seen.of("redislock.waiting", "wait", "exclusive", None), 0);
    assert_eq!(seen.of("redislock.held", "wait", "exclusive", None), 1);
    assert_eq!(seen.of("redislock.held", "wait", "shared", None), 0);
    for (instrument, mode, outcome) in [
        ("redislock.wait.duration", "shared", "acquired"),
        ("redislock.wait.duration", "exclusive", "acquired"),
        ("redislock.hold.duration", "shared", "released"),
    ] {
        assert_eq!(
            seen.of(instrument, "wait", mode, Some(("redislock.outcome", outcome))),
            1,
            "{instrument}"
        );
    }
    let spans = seen.spans.get_finished_spans().unwrap();
    let of_trace = spans.iter().filter(|span| span.span_context.trace_id() == trace.trace_id());
    let [span] = of_trace.filter(|span| span.name == "redislock.wait").collect::<Vec<_>>()[..] else {
        panic!("{spans:?}")
    };
    assert_eq!((span.parent_span_id, &span.status), (trace.span_id(), &Status::Unset));
    assert!(span.instrumentation_scope.version().is_some());
    assert!(span.start_time < span.end_time);
    next.release().await.unwrap();
    assert_eq!(seen.of("redislock.held", "wait", "exclusive", None), 0);
}

struct Tells(Sender<String>);

impl Observer for Tells {
    fn lost(&self, _lock: &Observed, held: Duration, reason: &str, error: &Error) {
        assert!(held > Duration::ZERO && matches!(error, Error::Lost(_)));
        self.0.send(reason.to_string()).unwrap();
    }

    fn acquired(&self, _lock: &Observed, _waited: Duration, _fence: u64) {
        panic!("of the user"); // a user's panic changes nothing
    }
}

#[test]
fn refusals_and_a_loss_say_why() {
    let (seen, locks) = (seen(), blocking::Locks::new(client()).observer(observer()));
    let held = locks.acquire("refused:1").limit(1).block().unwrap();
    let cancel = blocking::Cancel::default();
    thread::scope(|scope| {
        let wait = scope.spawn(|| locks.acquire("refused:1").limit(1).cancelled_by(&cancel).map(drop));
        seen.until(1, "redislock.waiting", "refused", "limit");
        cancel.cancel();
        assert!(matches!(wait.join().unwrap(), Err(Error::Cancelled)));
    });
    for wait in [0, 1] {
        let wait = Duration::from_millis(wait);
        let refused = locks.acquire("refused:1").limit(1).wait(wait).block();
        assert!(matches!(refused, Err(Error::NotAcquired(..))));
    }
    for outcome in ["cancelled", "busy", "timeout"] {
        let outcome = Some(("redislock.outcome", outcome));
        assert_eq!(seen.of("redislock.wait.duration", "refused", "limit", outcome), 1, "{outcome:?}");
    }
    assert_eq!(seen.of("redislock.waiting", "refused", "limit", None), 0);

    let (tells, told) = channel();
    let others = blocking::Locks::new(client()).observer(Tells(tells));
    let other = others.acquire("told:1").block().unwrap();
    for key in ["refused:1", "told:1"] {
        let mut connection = client().get_connection().unwrap();
        redis::cmd("LOCK.BREAK").arg(key).query::<Value>(&mut connection).unwrap();
    }
    let reason = told.recv_timeout(MINUTE).unwrap();
    assert!(matches!(other.release(), Err(Error::Lost(_))));
    seen.until(0, "redislock.held", "refused", "limit");
    assert!(matches!(held.release(), Err(Error::Lost(_))));
    for (instrument, more) in [
        ("redislock.lost", ("redislock.reason", reason.as_str())),
        ("redislock.hold.duration", ("redislock.outcome", "lost")),
    ] {
        assert_eq!(seen.of(instrument, "refused", "limit", Some(more)), 1, "{instrument}");
    }
}
