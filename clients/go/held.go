package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

type state int

const (
	waiting state = iota
	held
	lost
	leaving
	over
)

// Held is a lock that is held: renewed while it is, and told of its loss.
type Held struct {
	locks       *Locks
	request     *request
	ctx         context.Context
	cancel      context.CancelCauseFunc
	observation *observation
	woken       chan struct{} // a wait is to ask again
	turn        chan struct{} // of two extensions at once, nobody knows which came last at the server
	over        chan struct{} // closed when it has been given up

	// With the mutex of the locks:
	state         state
	fences, slots []int64
	left          []int64       // the grant of one that released it while this one waited
	until, due    time.Time     // when the lock may be gone, and when there is something to do for it
	sets          time.Duration // the lease that an extension on its way sets
	atMost        time.Time     // when it ends whatever the answer that is on its way says: one that shares it has set a shorter lease
	lease         time.Duration
	given         time.Duration // by the last answer that did not come out short
	aged          bool          // it came out shorter than asked for, or than the one before: the maximum age ends it
	doubted       bool
	sent          bool // the last acquire: it may wait for a subscription
	renewing      bool
	started       bool // at the message: the claim, which gives it its whole lease, is still to come
	heardLost     []int64
	asks          int64  // the number of the last acquire
	shard         *shard // which sends its messages; nil if it is not in a cluster
	told          *told  // what the message said that this acquire was granted
	used          bool   // others had the grant, or will have it, when this one left
	err           error

	// Of the wait, then of the goroutine that gives it up:
	place, unsure bool // it may have a place; an answer was lost, so it may be held
}

// told is a grant as a message tells of it: how long it lasts unclaimed, and the number of the permit of a Limit.
type told struct {
	fence, slot int64
	lasts       time.Duration
}

// Keys are the locks, in the order in which they were named.
func (h *Held) Keys() []string { return slices.Clone(h.request.keys) }

// Owner is the name under which the server knows the holder.
func (h *Held) Owner() string { return h.request.owner }

// Fence rises with each grant: a resource that checks it refuses a holder that was too slow. Of several locks, it is the greatest.
func (h *Held) Fence() int64 { return slices.Max(h.fences) }

// Fences has one for each key. Locks that were acquired together have the same one, unless they were held before.
func (h *Held) Fences() []int64 { return slices.Clone(h.fences) }

// Slot tells which of the holders of a Limit this one is, from 1; 0 if the server does not tell.
func (h *Held) Slot() int {
	if len(h.slots) == 0 {
		return 0
	}
	return int(h.slots[0])
}

// Context ends as soon as the lock is lost: then context.Cause is an ErrLost. It also ends with the release, with Locks.Close, and with
// the context of Acquire.
func (h *Held) Context() context.Context { return h.ctx }

// Err is an ErrLost if the lock was lost.
func (h *Held) Err() error {
	h.locks.mutex.Lock()
	defer h.locks.mutex.Unlock()
	if h.state == held && !time.Now().Before(h.until) { // a process that stood still finds out here
		h.locks.lose(h, errOver)
	}
	return h.err
}

// Extend sets the lease, counted from now, and that of renewals: 0 leaves its length. It returns what the server gave.
func (h *Held) Extend(ctx context.Context, lease time.Duration) (time.Duration, error) {
	if lease < 0 || lease > 0 && lease < time.Millisecond {
		return 0, fmt.Errorf("%w: a lease must be at least 1ms: %v", ErrInvalid, lease)
	}
	if err := h.Err(); err != nil {
		return 0, err
	}
	l := h.locks
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	l.mutex.Lock()
	if h.state != held {
		err := h.err
		l.mutex.Unlock()
		<-h.turn
		if err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("%w: %s was released", ErrInvalid, h.request)
	}
	began := time.Now()
	if lease > 0 {
		h.request.lease, h.lease = lease, lease
	}
	l.extends(h, began)
	words := h.request.extend(h.fences, h.request.lease)
	l.mutex.Unlock()
	var answered answer
	coming := l.start(h, func(string) []any { return words }, false)
	select {
	case answered = <-coming:
		<-h.turn
	case <-ctx.Done():
		go func() {
			<-coming
			l.mutex.Lock()
			l.lands(h)
			l.mutex.Unlock()
			<-h.turn
		}()
		return 0, context.Cause(ctx)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.lands(h)
	if answered.err != nil {
		if isGone(answered.err) {
			l.gone(h, answered.err)
		}
		if h.err != nil {
			return 0, h.err
		}
		return 0, explained(answered.err, h.request)
	}
	if h.err != nil {
		return 0, h.err
	}
	l.renewed(h, answered.reply, began)
	left, _ := answered.reply.(int64)
	return time.Duration(left) * time.Millisecond, h.err
}

// Release gives the lock back. It returns an ErrLost if the lock was lost before. It is sent even if ctx has ended.
func (h *Held) Release(ctx context.Context) error {
	if err := h.Err(); err != nil {
		return err
	}
	l := h.locks
	l.mutex.Lock()
	if h.state != held {
		err := h.err
		l.mutex.Unlock()
		return err
	}
	l.leave(h)
	left := time.Until(h.until)
	l.mutex.Unlock()
	defer h.cancel(nil)
	ended := h.observation.ending(h)
	var over <-chan time.Time
	if h.request.session { // it may be sent for longer
		over = time.After(left)
	} else if ctx.Done() == nil {
		return ended(l.part(h, nil))
	}
	done := make(chan error, 1)
	go func() { done <- ended(l.part(h, nil)) }()
	select {
	case err := <-done:
		return err
	case <-over:
		return nil
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(parting):
		return context.Cause(ctx)
	}
}

// renewed is to be called with the mutex.
func (l *Locks) renewed(h *Held, reply any, began time.Time) {
	if h.state != held {
		return
	}
	left, _ := reply.(int64)
	before := h.until
	h.aged, h.until, h.due, h.started = false, never(), never(), false
	if left < 0 { // somebody said PERSIST: it never ends
		return
	}
	lease := time.Duration(left) * time.Millisecond
	sure := min(lease, h.atMost.Sub(began))
	h.until = began.Add(sure)
	whole := cmp.Or(h.request.lease, h.given)
	// The maximum age moves no end back, but for the time that the answer took: the server's own lease is another one now.
	if h.request.lease == 0 && began.Add(lease).Before(before.Add(-time.Since(began)-time.Millisecond)) {
		whole = 0
	}
	if h.aged = h.request.kept && lease < whole; !h.aged {
		h.given = lease
	}
	if h.lease = h.request.lease; h.lease == 0 { // the first one may have been that of another hold, and longer than the server's own
		h.lease = lease
	}
	// A lease that comes out short has reached the maximum age: no renewal makes it longer.
	if h.request.kept && lease >= whole/2 {
		h.due = began.Add(sure / 3)
	}
	l.plan(h, h.due)
	l.shorten(h, sure, began)
	if !time.Now().Before(h.until) { // the process stood still
		l.lose(h, errOver)
	}
}

// extends is to be called with the mutex before the lease is set: the server may do so even if its answer does not come. Before the
// claim, the length of the server's own lease is not known.
func (l *Locks) extends(h *Held, began time.Time) {
	lease := h.request.lease
	if lease == 0 && !h.started {
		lease = h.lease
	}
	if lease > 0 {
		l.shorten(h, lease, began)
		h.sets = lease
	}
	l.departs(h, began)
}

// departs is for each command whose answer tells the lease: an extension of the same grant that is on its way may come behind it. To be
// called with the mutex.
func (l *Locks) departs(h *Held, began time.Time) {
	h.atMost = never()
	for _, other := range l.entries[h.request.owner] {
		shares := slices.Equal(other.fences, h.fences) || enters(h, other)
		if ends := began.Add(other.sets); other != h && shares && other.sets > 0 && ends.Before(h.atMost) {
			h.atMost = ends
		}
	}
}

// lands is for an extension that has its answer. To be called with the mutex.
func (l *Locks) lands(h *Held) {
	h.sets = 0
	if h.state == lost || h.state == over {
		l.forget(h)
	}
}

// shorten is for all that share the grant, or are about to: they share its lease. What they have asked already may come, or have come,
// before what sets this lease. To be called with the mutex.
func (l *Locks) shorten(h *Held, lease time.Duration, began time.Time) {
	until := began.Add(lease)
	for _, other := range l.entries[h.request.owner] {
		shares := slices.Equal(other.fences, h.fences)
		if (shares || enters(other, h)) && until.Before(other.atMost) {
			other.atMost = until
		}
		if other.state == held && shares && until.Before(other.until) {
			other.until = until
			if soon := began.Add(lease / 3); other.request.kept && soon.Before(other.due) {
				other.due = soon
			}
			l.plan(other, other.due)
		}
	}
}

// enters tells whether one that waits may be about to share the grant of the other.
func enters(h, other *Held) bool {
	return h.state == waiting && sameKeys(h.request.keys, other.request.keys)
}

// renew, in doubt, asks as for a new grant, so that the server knows this channel and this connection again. The fence tells
// whether it is still the old one.
func (l *Locks) renew(h *Held) {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	r := h.request
	l.mutex.Lock()
	doubted := h.doubted
	asks := doubted
	l.mutex.Unlock()
	channel := ""
	if asks {
		var err error
		channel, err = l.notified(h)
		asks = err == nil // else it is only made longer, until there is a subscription
	}
	l.mutex.Lock()
	if h.state != held || !h.doubted && time.Now().Before(h.due) { // it was extended meanwhile
		h.renewing = false
		if h.state == held {
			l.plan(h, h.due)
		}
		l.mutex.Unlock()
		return
	}
	h.doubted = h.doubted && !asks
	lease, began := r.lease, time.Now()
	words := r.extend(h.fences, lease)
	if asks {
		l.departs(h, began)
		if !r.kept && !h.started { // to ask never makes a lease shorter
			lease = time.Millisecond
		}
		words = r.acquire(channel, -1, lease, 0)
	} else {
		l.extends(h, began)
	}
	l.mutex.Unlock()
	reply, err := l.send(words, asks && r.session)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	h.renewing = false
	l.lands(h)
	var fences []int64
	if grant, ok := reply.([]any); ok && asks {
		fences, reply = numbers(grant[1]), grant[3]
	}
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		h.doubted = h.doubted || asks || redis.HasErrorPrefix(err, "GRACE")
		if isGone(err) {
			l.gone(h, err)
		} else if h.state == held {
			l.plan(h, time.Now().Add(min(time.Second, h.lease/10)))
		}
	case asks && !slices.Equal(fences, h.fences):
		l.gone(h, errOthers)
		l.giveBack(r, fences)
	case h.state != held:
		if asks && h.state != leaving {
			l.giveBack(r, fences)
		}
	default:
		l.renewed(h, reply, began)
		if h.doubted && asks == doubted {
			l.plan(h, time.Now())
		} else if h.doubted {
			l.plan(h, time.Now().Add(min(time.Second, h.lease/10)))
		}
	}
}
