// Package clock replaces the package time in a copy of redislock: the time stands still until the replay sets it.
package clock

import (
	"math"
	"slices"
	"sync"
	"time"
)

type (
	Duration = time.Duration
	Time     = time.Time
)

const (
	Millisecond = time.Millisecond
	Second      = time.Second
	Hour        = time.Hour
)

var (
	Begin  = time.Unix(1_000_000_000, 0)
	mutex  sync.Mutex
	now    = Begin
	timers []*Timer
)

type Timer struct {
	C   chan Time
	due Time
}

func Now() Time {
	mutex.Lock()
	defer mutex.Unlock()
	return now
}

func Since(t Time) Duration { return Now().Sub(t) }
func Until(t Time) Duration { return t.Sub(Now()) }

func NewTimer(d Duration) *Timer {
	t := &Timer{C: make(chan Time, 1)}
	t.Reset(d)
	return t
}

func After(d Duration) <-chan Time { return NewTimer(d).C }
func Sleep(d Duration)             { <-After(d) }

func (t *Timer) Stop() bool {
	mutex.Lock()
	defer mutex.Unlock()
	select {
	case <-t.C:
	default:
	}
	at := slices.Index(timers, t)
	if at >= 0 {
		timers = slices.Delete(timers, at, at+1)
	}
	return at >= 0
}

func (t *Timer) Reset(d Duration) bool {
	was := t.Stop()
	mutex.Lock()
	defer mutex.Unlock()
	t.due = now.Add(max(0, d))
	timers = append(timers, t)
	return was
}

// Forget removes all timers, for a new trace.
func Forget() {
	mutex.Lock()
	defer mutex.Unlock()
	now, timers = Begin, nil
}

// Next returns in how many ms from Begin the first timer is due, rounded up; 0 if there is none.
func Next() int64 {
	mutex.Lock()
	defer mutex.Unlock()
	next := int64(math.MaxInt64)
	for _, t := range timers {
		next = min(next, (t.due.Sub(Begin) + time.Millisecond - 1).Milliseconds())
	}
	if next == math.MaxInt64 {
		return 0
	}
	return next
}

// Set sets the clock, unless it is later already.
func Set(ms int64) {
	mutex.Lock()
	defer mutex.Unlock()
	if at := Begin.Add(time.Duration(ms) * time.Millisecond); at.After(now) {
		now = at
	}
}

// Fire fires all timers that are due. It returns whether there were any.
func Fire() bool {
	mutex.Lock()
	defer mutex.Unlock()
	// Rounding may make a timer some nanoseconds late, so fire these, too.
	end := now.Add(time.Microsecond)
	was := len(timers)
	timers = slices.DeleteFunc(timers, func(t *Timer) bool {
		if t.due.After(end) {
			return false
		}
		if t.due.After(now) {
			now = t.due
		}
		t.C <- now
		return true
	})
	return len(timers) < was
}
