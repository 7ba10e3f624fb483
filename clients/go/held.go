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

// Held is a lock that this process holds. The package renews it, and tells the holder if it is lost.
type Held struct {
	locks       *Locks
	request     *request
	ctx         context.Context
	cancel      context.CancelCauseFunc
	observation *observation
	woken       chan struct{} // tells a wait to ask the server again
	turn        chan struct{} // held while an extension is sent: of two at once, nobody could tell which the server did last
	over        chan struct{} // closed when the grant or place has been given up

	// The mutex of the locks guards these:
	state         state
	fences, slots []int64
	left          []int64       // fences of a grant that another Held of this owner left to this one, which waits
	until, due    time.Time     // when the lock may have ended, and when the timer has to act on it
	sets          time.Duration // the lease that an extension sets whose answer is still to come; else 0
	atMost        time.Time     // the latest end of the lease, whatever a pending answer says: another Held set a shorter lease
	lease         time.Duration
	given         time.Duration // the lease in the last answer that was not cut by the maximum age
	aged          bool          // the last answer gave less than was asked for or than the one before: the maximum age cuts it
	doubted       bool
	sent          bool // the last acquire has been sent: it may first wait for a subscription
	renewing      bool
	started       bool // work began at the start message: the claim, which sets the whole lease, is still to come
	heardLost     []int64
	asks          int64  // the number that START gave to the last acquire
	shard         *shard // the shard that sends its messages; nil outside a cluster
	told          *told  // the grant in the start message that answers the last acquire
	used          bool   // when this Held left, others of its owner had the grant or waited for it
	err           error

	// Used only by the wait, and then by the goroutine that gives it up:
	place, unsure bool // place: the server may have a place for it; unsure: an answer was lost, so the server may have granted it
}

// told is a grant in a start message: how long it lasts if nobody claims it, and the slot if a Limit was asked for.
type told struct {
	fence, slot int64
	lasts       time.Duration
}

// Keys are the locks, in the order in which they were named.
func (h *Held) Keys() []string { return slices.Clone(h.request.keys) }

// Owner is the name under which the server knows the holder.
func (h *Held) Owner() string { return h.request.owner }

// Fence is greater for each later grant: a resource that checks it can refuse a late holder. With several locks, it is the greatest.
func (h *Held) Fence() int64 { return slices.Max(h.fences) }

// Fences has one fence for each key. Locks that were acquired together have the same fence, unless the owner held one of them before.
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
	if h.state == held && !time.Now().Before(h.until) { // a process that was suspended notices here that the lease is over
		h.locks.lose(h, errOver)
	}
	return h.err
}

// Extend sets the lease, counted from now, also for later renewals; 0 keeps the length. It returns the lease that the server gave.
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

// Release gives the lock back. It returns an ErrLost if the lock was lost before. The command is sent even if ctx has ended.
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
	if h.request.session { // a session's release may be sent for longer than the caller waits
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

// renewed reads the lease in an answer, and plans the next renewal. The caller has the mutex.
func (l *Locks) renewed(h *Held, reply any, began time.Time) {
	if h.state != held {
		return
	}
	left, _ := reply.(int64)
	before := h.until
	h.aged, h.until, h.due, h.started = false, never(), never(), false
	if left < 0 { // somebody used PERSIST, so the lease never ends
		return
	}
	lease := time.Duration(left) * time.Millisecond
	sure := min(lease, h.atMost.Sub(began))
	h.until = began.Add(sure)
	whole := cmp.Or(h.request.lease, h.given)
	// The maximum age only cuts a new lease. If the end moved back by more than the answer took, the server's default was changed.
	if h.request.lease == 0 && began.Add(lease).Before(before.Add(-time.Since(began)-time.Millisecond)) {
		whole = 0
	}
	if h.aged = h.request.kept && lease < whole; !h.aged {
		h.given = lease
	}
	if h.lease = h.request.lease; h.lease == 0 { // the first lease may have been a longer one, of another hold
		h.lease = lease
	}
	// A lease that comes out short has reached the maximum age, and no renewal makes it longer.
	if h.request.kept && lease >= whole/2 {
		h.due = began.Add(sure / 3)
	}
	l.plan(h, h.due)
	l.shorten(h, sure, began)
	if !time.Now().Before(h.until) { // the process was suspended past the end
		l.lose(h, errOver)
	}
}

// extends notes, before an extension is sent, the lease that it sets: the server may set it even if no answer comes. Before the claim, the
// length of the server's default lease is unknown. The caller has the mutex.
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

// departs is called before each command whose answer tells the lease. An extension of the same grant that is already on its way may reach
// the server after it, and limits what the answer can promise. The caller has the mutex.
func (l *Locks) departs(h *Held, began time.Time) {
	h.atMost = never()
	for _, other := range l.entries[h.request.owner] {
		shares := slices.Equal(other.fences, h.fences) || enters(h, other)
		if ends := began.Add(other.sets); other != h && shares && other.sets > 0 && ends.Before(h.atMost) {
			h.atMost = ends
		}
	}
}

// lands is called when an extension has its answer. The caller has the mutex.
func (l *Locks) lands(h *Held) {
	h.sets = 0
	if h.state == lost || h.state == over {
		l.forget(h)
	}
}

// shorten applies a shorter lease to all that share the grant, or are about to. The server may handle their pending commands before or
// after the one that sets this lease. The caller has the mutex.
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

// enters tells whether h waits for the same locks as the other one, and so may soon share its grant.
func enters(h, other *Held) bool {
	return h.state == waiting && sameKeys(h.request.keys, other.request.keys)
}

// renew sends an extension. If the grant is in doubt, it sends an acquire instead, so that the server learns the channel and the connection
// anew; the fence in the answer tells whether the grant is still the old one.
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
		asks = err == nil // without a subscription, only extend the lease for now
	}
	l.mutex.Lock()
	if h.state != held || !h.doubted && time.Now().Before(h.due) { // another extension came first
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
		if !r.kept && !h.started { // an acquire never makes a lease shorter, so 1 ms leaves it as it is
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
