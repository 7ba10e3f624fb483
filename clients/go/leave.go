package redislock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// lose ends a lock that is held: the holder is told why. The caller has the mutex.
func (l *Locks) lose(h *Held, why error) {
	if h.state != held {
		return
	}
	if h.aged && !time.Now().Before(h.until) { // the server may report the end a moment before the timer runs
		why = errOld
	}
	h.state, h.err = lost, fmt.Errorf("%w: %s: %w", ErrLost, h.request, why)
	h.cancel(h.err)
	if h.observation != nil {
		go h.observation.ending(h)(h.err)
	}
	l.forget(h)
	l.giveBack(h.request, h.fences) // perhaps only the network failed, or other locks of several are still held
}

// gone is called if the server does not know the grant: it is lost for all that share it. The caller has the mutex.
func (l *Locks) gone(h *Held, why error) {
	for _, other := range slices.Clone(l.entries[h.request.owner]) {
		if !slices.ContainsFunc(h.fences, func(fence int64) bool { return !slices.Contains(other.fences, fence) }) {
			l.lose(other, why)
		}
	}
}

// giveBack releases a grant that nobody wants. The caller has the mutex.
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
	l.entries[r.owner] = append(l.entries[r.owner], other) // a new acquire of this owner waits for the release
	go func() { _ = l.part(other, nil) }()
}

// inherit makes h give up the grant or the place of another Held, unless h gets a grant of its own. The caller has the mutex.
func (h *Held) inherit(fences []int64, place bool) {
	h.place = h.place || place
	if h.fences == nil && fences != nil {
		h.left = fences
	}
}

// leave decides which Held gives up a grant that several share: the last one to leave. The caller has the mutex.
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

// part gives up the grant or the place. Without an answer, it tries again until the lease is over; in a session, without a limit.
func (l *Locks) part(h *Held, coming <-chan answer) error {
	defer func() {
		l.mutex.Lock()
		h.state = over
		l.forget(h)
		for _, other := range l.entries[h.request.owner] {
			if other.state == waiting { // the command may have ended their places, too
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
		// Others may have left meanwhile, without this grant: each of them releases the grant that it knows, or only its place.
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
			// The lock may have been granted already; of several, some may be held beside the place. It is not released if the caller named
			// the owner, who may hold it in another process.
			if left, _ := reply.(int64); err == nil && (left == 0 || len(r.keys) > 1) && (h.unsure && !r.named || r.starts) {
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
		case passes(err): // no more tries: the lease is over
			l.mutex.Lock()
			defer l.mutex.Unlock()
			if l.closed != nil {
				return fmt.Errorf("%w: %s: %w", ErrLost, r, errUnheard)
			}
			return nil
		case again && isGone(err): // an earlier try has worked
			return nil
		case err == nil && slices.Contains(missing, nil):
			return fmt.Errorf("%w: %s: %w", ErrLost, r, errMissing)
		case err == nil:
			return nil
		}
		return explained(err, r)
	}
}
