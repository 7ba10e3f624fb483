package redislock

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Observer is told what becomes of locks. Each function may be nil, and must not block: it runs in the goroutine that acquires or releases.
// A panic in it is logged, and changes nothing else. Each Waiting is followed by one Acquired or Refused, each Acquired by one Released or
// Lost. Each Held counts, also one that enters a lock again.
type Observer struct {
	// Waiting: the lock was not free, and the wait begins. The context that it returns is passed to the later functions.
	Waiting  func(context.Context, Event) context.Context
	Acquired func(context.Context, Event)
	Refused  func(context.Context, Event) // the acquire has ended without the lock
	Released func(context.Context, Event)
	Lost     func(context.Context, Event)
}

// Event is what an observer is told. The context passed with it is that of Acquire, or the one that Waiting returned.
type Event struct {
	Keys    []string
	Mode    string        // exclusive, shared or limit
	Waited  time.Duration // since Acquire was called; only for Acquired and Refused
	Held    time.Duration // only for Released and Lost
	Fence   int64         // only for Acquired
	Outcome string        // only for Refused: timeout, busy, cancelled, deadlock, closed or error
	Reason  string        // only for Lost: one of a few texts, or the code of the server's error
	Err     error         // only for Refused and Lost
}

// observation has what the observers are told about one acquire. It is nil if there are no observers.
type observation struct {
	observers []Observer
	contexts  []context.Context
	event     Event
	waits     bool
	since     time.Time // when the acquire began; later, when the lock was granted

	// The mutex of the locks guards these:
	told bool   // the observers were told Acquired
	end  func() // tells of the end; called after Acquired
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

// granted notes the time of the grant. The caller has the mutex.
func (o *observation) granted() {
	if o != nil {
		now := time.Now()
		o.event.Waited, o.since = now.Sub(o.since), now
	}
}

// acquired tells the observers of the grant, and also of its end if the lock has ended meanwhile.
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

// ending is called, with the mutex, when a lock ends. The function that it returns tells the observers, and needs no mutex.
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
		told := o.told && o.end == nil // otherwise, the observers were told when the locks were closed
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
