package redislock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// wait asks for a lock until it is held, or the wait is over.
func (l *Locks) wait(ctx context.Context, h *Held) error {
	r := h.request
	once := r.wait != nil && *r.wait == 0
	end := never()
	if r.wait != nil {
		end = time.Now().Add(*r.wait)
	}
	// pause waits for an answer, and returns an error if the wait has ended. If most is 0, there is no time limit.
	pause := func(most time.Duration, woken <-chan struct{}, coming <-chan answer) (answered *answer, err error) {
		var over <-chan time.Time
		if r.wait != nil && !once && (most == 0 || time.Until(end) < most) {
			most = max(1, time.Until(end))
		}
		if most > 0 {
			timer := time.NewTimer(most)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case given := <-coming:
			return &given, nil
		case <-woken:
		case <-over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-l.done:
			return nil, l.closed // closed is set only once, so it can be read without the mutex
		}
		return nil, nil
	}
	var trouble error
	notAcquired := func() error {
		if trouble != nil {
			return fmt.Errorf("%w: %s: %w", ErrNotAcquired, r, trouble)
		}
		return fmt.Errorf("%w: %s is not free", ErrNotAcquired, r)
	}
	for tries := 1; ; tries++ {
		select { // drained before sending: a message may come before the reply
		case <-h.woken:
		default:
		}
		l.mutex.Lock()
		other := l.partner(h, leaving) // the release of the other one could end the grant that this wait would enter
		l.mutex.Unlock()
		if other != nil {
			if _, err := pause(askAgain, other.over, nil); err != nil {
				return l.giveUp(h, nil, err)
			} else if !once && !time.Now().Before(end) {
				return l.giveUp(h, nil, notAcquired())
			}
			tries--
			continue
		}
		l.mutex.Lock()
		h.asks, h.told, h.sent = h.asks+1, nil, false
		starts := r.starts && !l.claims
		l.mutex.Unlock()
		began := time.Now()
		words := func(channel string) []any { // called once there is a subscription, which may take long
			if h.state != waiting {
				return nil
			}
			block, number := int64(0), int64(0)
			began, h.sent = time.Now(), true
			if once {
				block = -1
			} else if r.wait != nil {
				block = max(1, (time.Until(end) + time.Millisecond - 1).Milliseconds())
			}
			l.departs(h, began)
			if starts {
				number = h.asks
			}
			return r.acquire(channel, block, r.lease, number)
		}
		coming := l.start(h, words, true)
		answered, err := pause(0, nil, coming)
		if answered == nil { // the wait was cancelled, or its time is over
			if err == nil {
				if trouble == nil {
					trouble = errors.New("no answer from the server")
				}
				err = notAcquired()
			}
			return l.giveUp(h, coming, err)
		}
		l.mutex.Lock()
		h.note(*answered)
		l.mutex.Unlock()
		trouble = nil
		next := askAgain
		switch grant, ok := answered.reply.([]any); {
		case ok:
			if !l.hold(h, grant, began) {
				return l.giveUp(h, nil, l.closed)
			}
			return nil
		case errors.Is(answered.err, redis.Nil):
			return l.giveUp(h, nil, notAcquired())
		case passes(answered.err) && (!once || tries < 2):
			trouble, next = answered.err, tryAgain
		case answered.err != nil && starts && isSyntax(answered.err): // the module is too old to know START
			l.mutex.Lock()
			l.claims = true
			l.mutex.Unlock()
			continue
		case answered.err != nil:
			return l.giveUp(h, nil, explained(answered.err, r))
		default:
			h.observation.waiting()
		}
		if _, err := pause(next, h.woken, nil); err != nil {
			return l.giveUp(h, nil, err)
		} else if trouble == nil && l.begin(h, began) {
			return nil
		} else if !once && !time.Now().Before(end) {
			return l.giveUp(h, nil, notAcquired())
		}
	}
}

// note remembers whether the server may have a place or a grant for this wait. The caller has the mutex.
func (h *Held) note(answered answer) {
	switch grant, isGranted := answered.reply.([]any); {
	case isGranted:
		h.unsure, h.fences = false, numbers(grant[1])
		if left, _ := grant[3].(int64); left > 0 {
			h.lease = time.Duration(left) * time.Millisecond
		}
	case answered.err == nil, errors.Is(answered.err, redis.Nil):
		h.unsure = h.unsure && len(h.request.keys) > 1 // without one of them, it may hold the others
		h.place = h.place || answered.err == nil
	default:
		h.unsure = h.unsure || passes(answered.err)
		h.place = h.place || redis.HasErrorPrefix(answered.err, "NOREPLICAS")
	}
}

// hold records the grant. It returns false if the locks were closed meanwhile: nobody would notice the end of the lease.
func (l *Locks) hold(h *Held, grant []any, began time.Time) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed != nil {
		return false
	}
	if len(grant) > 4 {
		h.slots = numbers(grant[4])
	}
	h.state = held
	h.observation.granted()
	l.renewed(h, grant[3], began)
	if slices.ContainsFunc(h.fences, func(fence int64) bool { return slices.Contains(h.heardLost, fence) }) {
		l.lose(h, errTold)
	}
	return true
}

// begin returns true if the lock is held from the start message on. The message repeats the number of the last acquire, so the grant is
// younger than this acquire; counting the lease from when it was sent is therefore safe. If too little time is left, the wait asks again.
func (l *Locks) begin(h *Held, asked time.Time) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	told := h.told
	if told == nil || l.closed != nil || slices.Contains(h.heardLost, told.fence) {
		return false
	}
	until := asked.Add(told.lasts)
	left := time.Until(until)
	if left < told.lasts/5 {
		return false
	}
	h.fences, h.state, h.started, h.until, h.lease = []int64{told.fence}, held, true, until, told.lasts
	h.observation.granted()
	if h.request.limit > 0 {
		h.slots = []int64{told.slot}
	}
	l.plan(h, until.Add(-left*2/3)) // time for the claim, if the lock is still held then
	return true
}

// giveUp ends the wait. Its place or grant at the server is given up in the background, if this takes longer.
func (l *Locks) giveUp(h *Held, coming <-chan answer, why error) error {
	l.mutex.Lock()
	l.leave(h)
	if !h.sent {
		coming = nil
	}
	if !h.used {
		l.giveBack(h.request, h.left)
	}
	l.mutex.Unlock()
	go func() { _ = l.part(h, coming) }()
	select {
	case <-h.over:
	case <-time.After(parting):
	}
	return why
}

// numbers reads a reply that is one number or a list of numbers.
func numbers(reply any) (all []int64) {
	switch reply := reply.(type) {
	case int64:
		return []int64{reply}
	case []any:
		for _, one := range reply {
			all = append(all, numbers(one)...)
		}
	}
	return all
}
