// Package redislockotel shows locks of Redislock in OpenTelemetry: how long acquires wait, how long locks are held, and what is lost.
package redislockotel

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"redislock.test/redislock"
)

const (
	scope   = "redislock"
	version = "0.1.0"
)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	name    func(key string) string
}

// Option changes where measurements go, or what they tell.
type Option func(*config)

// WithMeterProvider uses this provider instead of the global one.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(c *config) { c.meters = provider }
}

// WithTracerProvider uses this provider instead of the global one.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(c *config) { c.tracers = provider }
}

// WithName adds the attribute redislock.name: the function computes it from a lock's first key. There should be few different names.
func WithName(name func(key string) string) Option {
	return func(c *config) { c.name = name }
}

type waiting struct{}

// NewObserver returns an observer for redislock.New. It uses the global providers, unless options name others.
func NewObserver(options ...Option) redislock.Observer {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, option := range options {
		option(&c)
	}
	meter, tracer := c.meters.Meter(scope, metric.WithInstrumentationVersion(version)), c.tracers.Tracer(scope, trace.WithInstrumentationVersion(version))
	histogram := func(name, description string) metric.Float64Histogram {
		made, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300))
		handle(err)
		return made
	}
	upDown := func(name, unit, description string) metric.Int64UpDownCounter {
		made, err := meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		handle(err)
		return made
	}
	waits := histogram("redislock.wait.duration", "From the call to the lock, or to the refusal.")
	holds := histogram("redislock.hold.duration", "From the lock to its release, or loss.")
	now := upDown("redislock.waiting", "{waiter}", "Acquires that wait for a lock.")
	held := upDown("redislock.held", "{lock}", "Locks that are held.")
	lost, err := meter.Int64Counter("redislock.lost", metric.WithUnit("{lock}"), metric.WithDescription("Locks that were lost."))
	handle(err)

	with := func(event redislock.Event, more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributes(c.attributes(event, more...)...)
	}
	ends := func(ctx context.Context, event redislock.Event, outcome string) {
		word := attribute.String("redislock.outcome", outcome)
		waits.Record(ctx, event.Waited.Seconds(), with(event, word))
		if span, ok := ctx.Value(waiting{}).(trace.Span); ok {
			now.Add(ctx, -1, with(event))
			span.SetAttributes(word)
			span.End()
		}
	}
	holdEnds := func(ctx context.Context, event redislock.Event, outcome string) {
		holds.Record(ctx, event.Held.Seconds(), with(event, attribute.String("redislock.outcome", outcome)))
		held.Add(ctx, -1, with(event))
	}
	return redislock.Observer{
		Waiting: func(ctx context.Context, event redislock.Event) context.Context {
			now.Add(ctx, 1, with(event))
			kind := trace.WithSpanKind(trace.SpanKindClient)
			_, span := tracer.Start(ctx, "redislock.wait", kind, trace.WithAttributes(c.attributes(event)...))
			return context.WithValue(ctx, waiting{}, span)
		},
		Acquired: func(ctx context.Context, event redislock.Event) {
			held.Add(ctx, 1, with(event))
			ends(ctx, event, "acquired")
		},
		Refused: func(ctx context.Context, event redislock.Event) {
			span, ok := ctx.Value(waiting{}).(trace.Span)
			if ok && event.Outcome != "timeout" && event.Outcome != "busy" && event.Outcome != "cancelled" {
				span.SetStatus(codes.Error, event.Err.Error())
			}
			ends(ctx, event, event.Outcome)
		},
		Released: func(ctx context.Context, event redislock.Event) { holdEnds(ctx, event, "released") },
		Lost: func(ctx context.Context, event redislock.Event) {
			lost.Add(ctx, 1, with(event, attribute.String("redislock.reason", event.Reason)))
			holdEnds(ctx, event, "lost")
		},
	}
}

func (c *config) attributes(event redislock.Event, more ...attribute.KeyValue) []attribute.KeyValue {
	all := append(more, attribute.String("redislock.mode", event.Mode))
	if c.name != nil {
		all = append(all, attribute.String("redislock.name", c.name(event.Keys[0])))
	}
	return all
}

func handle(err error) {
	if err != nil {
		otel.Handle(err)
	}
}
