package redislockotel

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"redislock.test/redislock"
)

var ctx = context.Background()

func connect(t *testing.T) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

// seen is what the OpenTelemetry SDK has recorded.
type seen struct {
	t      *testing.T
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
}

func observed(t *testing.T, more ...redislock.Observer) (*redislock.Locks, seen) {
	t.Helper()
	s := seen{t, metric.NewManualReader(), tracetest.NewSpanRecorder(), nil}
	s.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(s.spans))
	name := func(key string) string { return strings.Split(key, ":")[0] }
	otel := NewObserver(WithMeterProvider(metric.NewMeterProvider(metric.WithReader(s.reader))), WithTracerProvider(s.tracer), WithName(name))
	locks := redislock.New(connect(t), append(more, otel)...)
	t.Cleanup(func() { locks.Close() })
	return locks, s
}

// of returns the sum, or the count, of the instrument's data with these attribute values, in the order of the attributes' names.
func (s seen) of(instrument string, values ...string) (sum int64) {
	s.t.Helper()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(ctx, &all); err != nil {
		s.t.Fatal(err)
	}
	has := func(attributes attribute.Set) bool {
		var have []string
		for _, attribute := range attributes.ToSlice() {
			have = append(have, attribute.Value.AsString())
		}
		return slices.Equal(have, values)
	}
	for _, scope := range all.ScopeMetrics {
		for _, metric := range scope.Metrics {
			if scope.Scope.Name != "redislock" || scope.Scope.Version != version || metric.Name != instrument {
				continue
			}
			switch data := metric.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					if has(point.Attributes) {
						sum += point.Value
					}
				}
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					if has(point.Attributes) {
						sum += int64(point.Count)
					}
				}
			}
		}
	}
	return sum
}

func (s seen) until(want int64, instrument string, values ...string) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); s.of(instrument, values...) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal(instrument, values, s.of(instrument, values...))
		}
	}
}

func TestAWaitCountsAndHasASpanInTheTraceOfItsCaller(t *testing.T) {
	locks, seen := observed(t)
	held, err := locks.Acquire(ctx, "wait:1", redislock.Shared())
	if err != nil {
		t.Fatal(err)
	}
	parent, caller := seen.tracer.Tracer("test").Start(ctx, "caller")
	waits := make(chan *redislock.Held)
	go func() {
		held, err := locks.Acquire(parent, "wait:1")
		if err != nil {
			t.Error(err)
		}
		waits <- held
	}()
	seen.until(1, "redislock.waiting", "exclusive", "wait")
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	next := <-waits
	for _, expected := range []struct {
		want       int64
		instrument string
		values     []string
	}{
		{0, "redislock.waiting", []string{"exclusive", "wait"}},
		{1, "redislock.held", []string{"exclusive", "wait"}},
		{0, "redislock.held", []string{"shared", "wait"}},
		{1, "redislock.wait.duration", []string{"exclusive", "wait", "acquired"}},
		{1, "redislock.wait.duration", []string{"shared", "wait", "acquired"}},
		{1, "redislock.hold.duration", []string{"shared", "wait", "released"}},
	} {
		if got := seen.of(expected.instrument, expected.values...); got != expected.want {
			t.Error(expected, got)
		}
	}
	spans := seen.spans.Ended() // a lock that was free has no span
	if len(spans) != 1 || spans[0].Name() != "redislock.wait" || spans[0].InstrumentationScope().Version != version || spans[0].Parent().SpanID() != caller.SpanContext().SpanID() ||
		spans[0].Status().Code != codes.Unset || len(spans[0].Attributes()) != 3 {
		t.Fatal(spans)
	}
	if err := next.Release(ctx); err != nil {
		t.Fatal(err)
	}
	seen.until(0, "redislock.held", "exclusive", "wait")
}

func TestRefusalsAndALossSayWhy(t *testing.T) {
	var lost redislock.Event
	told := make(chan struct{})
	locks, seen := observed(t, redislock.Observer{Lost: func(_ context.Context, event redislock.Event) { lost = event; close(told) }})
	held, err := locks.Acquire(ctx, "refused:1", redislock.Limit(1))
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	refused := make(chan error)
	go func() { _, err := locks.Acquire(cancelled, "refused:1", redislock.Limit(1)); refused <- err }()
	seen.until(1, "redislock.waiting", "limit", "refused")
	cancel()
	if err := <-refused; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := locks.TryAcquire(ctx, "refused:1", redislock.Limit(1)); !errors.Is(err, redislock.ErrNotAcquired) {
		t.Fatal(err)
	}
	if _, err := locks.Acquire(ctx, "refused:1", redislock.Limit(1), redislock.Wait(time.Millisecond)); !errors.Is(err, redislock.ErrNotAcquired) {
		t.Fatal(err)
	}
	for _, outcome := range []string{"cancelled", "busy", "timeout"} {
		if seen.of("redislock.wait.duration", "limit", "refused", outcome) != 1 {
			t.Error(outcome)
		}
	}
	if seen.of("redislock.waiting", "limit", "refused") != 0 {
		t.Error("somebody waits")
	}
	if err := connect(t).Do(ctx, "LOCK.BREAK", "refused:1").Err(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-told:
	case <-time.After(30 * time.Second):
		t.Fatal("no loss is told")
	}
	if !errors.Is(lost.Err, redislock.ErrLost) || lost.Held <= 0 || !errors.Is(held.Release(ctx), redislock.ErrLost) {
		t.Fatal(lost)
	}
	seen.until(1, "redislock.hold.duration", "limit", "refused", "lost") // only one loss, although the lock was also released later
	if seen.of("redislock.lost", "limit", "refused", lost.Reason) != 1 || seen.of("redislock.held", "limit", "refused") != 0 {
		t.Fatal(lost)
	}
}

func TestAnObserverThatPanicsChangesNothing(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer slog.SetDefault(before)
	panics := func(context.Context, redislock.Event) { panic("of the user") }
	locks, seen := observed(t, redislock.Observer{Acquired: panics, Refused: panics, Released: panics})
	held, err := locks.Acquire(ctx, "panics:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locks.TryAcquire(ctx, "panics:1"); !errors.Is(err, redislock.ErrNotAcquired) {
		t.Fatal(err)
	}
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if strings.Count(logged.String(), "of the user") != 3 || seen.of("redislock.hold.duration", "exclusive", "panics", "released") != 1 {
		t.Fatal(logged.String())
	}
}
