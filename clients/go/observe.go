package redislock

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Observer is told what becomes of locks. Each function may be nil, and must not block: the goroutine that acquires or releases calls
// it. A panic in it is logged, and changes nothing. Each Waiting is followed by one Acquired or Refused, each Acquired by one Released
// or Lost. Each Held counts, also one that enters a lock again.
type Observer struct {
	// Waiting: the lock was not free, and the wait begins. What it returns is the context of the calls that follow.
	Waiting  func(context.Context, Event) context.Context
	Acquired func(context.Context, Event)
	Refused  func(context.Context, Event) // the acquire has ended without the lock
	Released func(context.Context, Event)
	Lost     func(context.Context, Event)
}

// Event is what an observer is told. The context beside it is that of Acquire.
type Event struct {
	Keys    []string
	Mode    string        // exclusive, shared or limit
	Waited  time.Duration // since Acquire was called; of Acquired and Refused
	Held    time.Duration // of Released and Lost
	Fence   int64         // of Acquired
	Outcome string        // of Refused: timeout, busy, cancelled, deadlock, closed or error
	Reason  string        // of Lost: one of few, or the code of the server's error
	Err     error         // of Refused and Lost
}

// observation is what is told of one acquire. There is none without observers.
type observation struct {
	observers []Observer
	contexts  []context.Context
	event     Event
	waits     bool
	since     time.Time // the acquire, then the grant

	// With the mutex of the locks:
	told bool   // that it was acquired
	end  func() // what is to be told after that
}

func (l *Locks) observe(ctx context.Context, r *request) *observation {
	if len(l.observers) == 0 {
		return nil
	}
	mode := "exclusive"
	if r.shared {
		mode = "shared"
	} else if r.limit > 0 {
		mode = "limit"
	}
	o := &observation{observers: l.observers, event: Event{Keys: r.keys, Mode: mode}, since: time.Now()}
	for range l.observers {
		o.contexts = append(o.contexts, ctx)
	}
	return o
}

func (o *observation) tell(event Event, which func(Observer) func(context.Context, Event)) {
	for at, observer := range o.observers {
		if call := which(observer); call != nil {
			safely(func() { call(o.contexts[at], event) })
		}
	}
}

func safely(call func()) {
	defer func() {
		if failed := recover(); failed != nil {
			slog.Error("redislock: an observer panicked", "panic", failed)
		}
	}()
	call()
}

func (o *observation) waiting() {
	if o == nil || o.waits {
		return
	}
	o.waits = true
	for at, observer := range o.observers {
		if observer.Waiting != nil {
			safely(func() { o.contexts[at] = observer.Waiting(o.contexts[at], o.event) })
		}
	}
}

// granted is to be called with the mutex.
func (o *observation) granted() {
	if o != nil {
		now := time.Now()
		o.event.Waited, o.since = now.Sub(o.since), now
	}
}

// acquired also tells of the end, if that has come meanwhile.
func (o *observation) acquired(h *Held) {
	if o == nil {
		return
	}
	event := o.event
	event.Fence = h.Fence()
	o.tell(event, func(o Observer) func(context.Context, Event) { return o.Acquired })
	h.locks.mutex.Lock()
	o.told = true
	end := o.end
	h.locks.mutex.Unlock()
	if end != nil {
		end()
	}
}

func (o *observation) refused(ctx context.Context, r *request, err error) error {
	if o == nil {
		return err
	}
	event := o.event
	event.Waited, event.Err, event.Outcome = time.Since(o.since), err, "error"
	switch {
	case errors.Is(err, ErrDeadlock):
		event.Outcome = "deadlock"
	case errors.Is(err, ErrClosed):
		event.Outcome = "closed"
	case errors.Is(err, ErrNotAcquired) && r.wait != nil && *r.wait == 0:
		event.Outcome = "busy"
	case errors.Is(err, ErrNotAcquired):
		event.Outcome = "timeout"
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		event.Outcome = "cancelled"
	}
	o.tell(event, func(o Observer) func(context.Context, Event) { return o.Refused })
	return err
}

// ending is to be called when a lock is given back or lost. What it returns tells of that, without the mutex.
func (o *observation) ending(h *Held) func(err error) error {
	if o == nil {
		return func(err error) error { return err }
	}
	event := Event{Keys: o.event.Keys, Mode: o.event.Mode, Held: time.Since(o.since)}
	which := func(o Observer) func(context.Context, Event) { return o.Released }
	return func(err error) error {
		if errors.Is(err, ErrLost) {
			event.Err, which = err, func(o Observer) func(context.Context, Event) { return o.Lost }
			if all, ok := err.(interface{ Unwrap() []error }); ok {
				event.Reason = all.Unwrap()[1].Error()
			}
			if said := redis.Error(nil); errors.As(err, &said) {
				event.Reason, _, _ = strings.Cut(said.Error(), " ")
			}
		}
		end := func() { o.tell(event, which) }
		h.locks.mutex.Lock()
		told := o.told && o.end == nil // else it has been told that the locks were closed
		if o.end == nil {
			o.end = end
		}
		h.locks.mutex.Unlock()
		if told {
			end()
		}
		return err
	}
}
