package redislock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// lose is to be called with the mutex.
func (l *Locks) lose(h *Held, why error) {
	if h.state != held {
		return
	}
	if h.aged && !time.Now().Before(h.until) { // the server may say that it has ended before the clock's look
		why = errOld
	}
	h.state, h.err = lost, fmt.Errorf("%w: %s: %w", ErrLost, h.request, why)
	h.cancel(h.err)
	if h.observation != nil {
		go h.observation.ending(h)(h.err)
	}
	l.forget(h)
	l.giveBack(h.request, h.fences) // perhaps only the network failed, or there are others of several locks
}

// gone is for a grant of which the server knows nothing: it is lost for all that share it. To be called with the mutex.
func (l *Locks) gone(h *Held, why error) {
	for _, other := range slices.Clone(l.entries[h.request.owner]) {
		if !slices.ContainsFunc(h.fences, func(fence int64) bool { return !slices.Contains(other.fences, fence) }) {
			l.lose(other, why)
		}
	}
}

// giveBack releases a grant that nobody wants. To be called with the mutex.
func (l *Locks) giveBack(r *request, fences []int64) {
	other := &Held{locks: l, request: r, fences: fences, state: leaving, lease: noLease, over: make(chan struct{})}
	if len(fences) == 0 {
		return
	}
	if heir := l.partner(other, waiting, held); heir != nil {
		heir.inherit(fences, false)
		return
	}
	other.until = time.Now().Add(noLease)
	l.entries[r.owner] = append(l.entries[r.owner], other) // who comes back waits for it
	go func() { _ = l.part(other, nil) }()
}

// inherit has it give up the grant or the place of another one, if it gets no grant of its own. To be called with the mutex.
func (h *Held) inherit(fences []int64, place bool) {
	h.place = h.place || place
	if h.fences == nil && fences != nil {
		h.left = fences
	}
}

// leave decides once who gives up the grant of several: the last one. To be called with the mutex.
func (l *Locks) leave(h *Held) {
	other, place := l.partner(h, waiting, held), h.state == waiting && (h.place || h.unsure)
	h.used, h.state = other != nil, leaving
	left := h.left
	if h.fences != nil {
		left = h.fences
	}
	if other != nil {
		other.inherit(left, place)
	}
}

// part gives up the grant or the place. What can't be sent now is sent again until the lease would be over anyway: never in a session.
func (l *Locks) part(h *Held, coming <-chan answer) error {
	defer func() {
		l.mutex.Lock()
		h.state = over
		l.forget(h)
		for _, other := range l.entries[h.request.owner] {
			if other.state == waiting { // what ends may end the place of its owner
				l.doubt(other)
			}
		}
		l.mutex.Unlock()
		close(h.over)
	}()
	r := h.request
	if coming != nil {
		answered := <-coming
		l.mutex.Lock()
		h.note(answered)
		// Others may have left meanwhile, without this grant: who leaves knows its own, or gives up no more than a place.
		knows := func(other *Held) bool {
			return other != h && !other.used && other.state == leaving && slices.Equal(other.fences, h.fences)
		}
		if heir := l.partner(h, waiting, held); heir != nil && h.used {
			heir.inherit(h.fences, h.place || h.unsure)
		} else {
			h.used = h.used && h.fences != nil && slices.ContainsFunc(l.entries[r.owner], knows)
		}
		l.mutex.Unlock()
	}
	until := time.Now().Add(h.lease)
	if h.fences != nil && h.until.Before(until) {
		until = h.until
	}
	for again := false; ; again = true {
		var reply any
		var err error
		switch {
		case h.used:
		case h.fences != nil:
			reply, err = l.ask(r, r.release(h.fences))
		case h.place || h.unsure:
			reply, err = l.ask(r, r.leave())
			// It may have been granted already. An owner that the caller named may hold the lock in another process.
			if left, _ := reply.(int64); err == nil && left == 0 && (h.unsure && !r.named || r.starts) {
				_, err = l.ask(r, r.release(nil))
			}
		}
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		missing, _ := reply.([]any)
		l.mutex.Lock()
		goesOn := r.session && l.closed == nil || time.Now().Before(until)
		l.mutex.Unlock()
		switch {
		case passes(err) && goesOn:
			time.Sleep(tryAgain)
			continue
		case passes(err): // the lease is over
			l.mutex.Lock()
			defer l.mutex.Unlock()
			if l.closed != nil {
				return fmt.Errorf("%w: %s: %w", ErrLost, r, errUnheard)
			}
			return nil
		case again && isGone(err): // the first try has worked
			return nil
		case err == nil && slices.Contains(missing, nil):
			return fmt.Errorf("%w: %s: %w", ErrLost, r, errMissing)
		case err == nil:
			return nil
		}
		return explained(err, r)
	}
}
