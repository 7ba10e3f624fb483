// Package redislock has locks of a Redis or Valkey server with the module Redislock, beside go-redis.
// docs/protocol.md tells in full what it does.
package redislock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	askAgain = 4 * time.Second // less than lock.claim: a lost message costs seconds, but never the lock
	tryAgain = 100 * time.Millisecond
	silence  = 4 * time.Second       // after it the subscription is pinged, and after another one made anew
	parting  = 40 * time.Millisecond // nobody waits longer to see that a place was given up
	noLease  = 30 * time.Second      // what to assume of a lease that is not known
	commands = 8                     // connections for commands; 1,000 goroutines share them
)

// Locks are the locks of a process: make one for each client, and share it between all goroutines.
type Locks struct {
	commands, sessions redis.UniversalClient
	own, single        bool // the clients are ours to close; of one server
	channel            string
	starting           sync.Mutex
	pubsub             *redis.PubSub // set by starting, then the listener's own
	failed             time.Time     // with starting
	failure            error
	wake, more         chan struct{}
	done               chan struct{}
	running            sync.WaitGroup

	mutex   sync.Mutex
	closed  bool
	working bool // so l.jobs are done
	jobs    []job
	claims  bool // an older server: it grants nothing at the message
	next    time.Time
	entries map[string][]*Held // by owner
}

// New uses the settings of the client (a Client, of Sentinel too, or a ClusterClient) for connections of its own: the client may
// have a pool of one, or be busy. Another UniversalClient is used itself.
func New(client redis.UniversalClient) *Locks {
	l := &Locks{
		commands: client, sessions: client, channel: "redislock:" + newUUID(), wake: make(chan struct{}, 1),
		more: make(chan struct{}, commands),
		done: make(chan struct{}), entries: map[string][]*Held{}, next: never(),
	}
	switch client := client.(type) {
	case *redis.Client:
		l.own, l.single = true, true
		single := func(size int) redis.UniversalClient {
			o := *client.Options()
			o.PushNotificationProcessor = nil // each client has its own
			o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = size, 0, 0, 0
			lasting(&o.MaxRetries, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.ConnMaxIdleTime, &o.ConnMaxLifetime)
			return redis.NewClient(&o)
		}
		l.commands, l.sessions = single(commands), single(1)
	case *redis.ClusterClient:
		l.own = true
		cluster := func(size int) redis.UniversalClient {
			o := *client.Options()
			o.PushNotificationProcessor = nil
			o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = size, 0, 0, 0
			o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
			lasting(&o.MaxRetries, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.ConnMaxIdleTime, &o.ConnMaxLifetime)
			return redis.NewClusterClient(&o)
		}
		l.commands, l.sessions = cluster(commands), cluster(1)
	}
	return l
}

// lasting: places end with their connection. And the protocol itself sends again what was lost.
func lasting(retries *int, read, write, pool, idle, life *time.Duration) {
	*retries, *pool, *idle, *life = -1, 30*time.Second, -1, -1
	for _, timeout := range []*time.Duration{read, write} {
		if *timeout == 0 { // the client was told -1; 0 would be the default
			*timeout = -1
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func never() time.Time { return time.Now().Add(100 * 365 * 24 * time.Hour) }

// Acquire waits for a lock. ctx ends the wait, and is the parent of Held.Context.
func (l *Locks) Acquire(ctx context.Context, key string, options ...Option) (*Held, error) {
	return l.AcquireAll(ctx, []string{key}, options...)
}

// TryAcquire asks once: ErrNotAcquired tells that somebody else holds the lock.
func (l *Locks) TryAcquire(ctx context.Context, key string, options ...Option) (*Held, error) {
	return l.Acquire(ctx, key, append(slices.Clone(options), Wait(0))...)
}

// AcquireAll waits for several locks at once, all or none.
func (l *Locks) AcquireAll(ctx context.Context, keys []string, options ...Option) (*Held, error) {
	r, err := newRequest(keys, options)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	h := &Held{locks: l, request: r, woken: make(chan struct{}, 1), turn: make(chan struct{}, 1), over: make(chan struct{}), until: never(), due: never(), lease: noLease}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	l.mutex.Lock()
	if l.closed {
		l.mutex.Unlock()
		h.cancel(ErrClosed)
		return nil, ErrClosed
	}
	l.entries[r.owner] = append(l.entries[r.owner], h)
	l.mutex.Unlock()
	if err := l.wait(ctx, h); err != nil {
		h.cancel(err)
		return nil, err
	}
	return h, nil
}

// Close releases what is held, and ends all waits. The user's own client stays open.
func (l *Locks) Close() error {
	l.mutex.Lock()
	if l.closed {
		l.mutex.Unlock()
		return nil
	}
	l.closed = true
	close(l.done)
	all := l.all()
	l.mutex.Unlock()
	var parts sync.WaitGroup
	for _, h := range all {
		parts.Go(func() {
			if h.Release(context.Background()) == nil { // a wait, or a release that had begun, ends by itself
				select {
				case <-h.over:
				case <-time.After(silence):
				}
			}
		})
	}
	parts.Wait()
	l.starting.Lock()
	pubsub := l.pubsub
	l.starting.Unlock()
	if pubsub != nil {
		_ = pubsub.Close()
	}
	l.running.Wait()
	if l.own {
		_ = l.sessions.Close()
		return l.commands.Close()
	}
	return nil
}

// all is to be called with the mutex.
func (l *Locks) all() (all []*Held) {
	for _, those := range l.entries {
		all = append(all, those...)
	}
	return all
}

// forget is to be called with the mutex.
func (l *Locks) forget(h *Held) {
	those := l.entries[h.request.owner]
	if at := slices.Index(those, h); at >= 0 {
		those = slices.Delete(those, at, at+1)
	}
	if l.entries[h.request.owner] = those; len(those) == 0 {
		delete(l.entries, h.request.owner)
	}
}

// partner is another one in the same grant, or that will be in it, in one of these states. To be called with the mutex.
func (l *Locks) partner(h *Held, states ...state) *Held {
	for _, other := range l.entries[h.request.owner] {
		one := len(other.fences) == 0 || len(h.fences) == 0 || slices.Equal(other.fences, h.fences)
		if other != h && !other.used && one && slices.Contains(states, other.state) && sameKeys(other.request.keys, h.request.keys) {
			return other
		}
	}
	return nil
}

func sameKeys(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(key string) bool { return !slices.Contains(b, key) })
}

// subscribed has the one subscription, from the first lock on.
func (l *Locks) subscribed() error {
	l.starting.Lock()
	defer l.starting.Unlock()
	if l.pubsub != nil {
		return nil
	}
	if time.Since(l.failed) < tryAgain { // others waited for the same failure, one after another
		return l.failure
	}
	pubsub := l.commands.Subscribe(context.Background(), l.channel)
	if _, err := pubsub.ReceiveTimeout(context.Background(), silence); err != nil {
		_ = pubsub.Close()
		l.failed, l.failure = time.Now(), err
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		_ = pubsub.Close()
		return ErrClosed
	}
	l.pubsub, l.working = pubsub, true
	for range commands {
		go l.work()
	}
	l.running.Go(l.listen)
	l.running.Go(l.clock)
	return nil
}

func (l *Locks) listen() {
	ctx, pubsub, silent, pause := context.Background(), l.pubsub, false, time.Duration(0)
	defer func() { _ = pubsub.Close() }()
	for {
		message, err := pubsub.ReceiveTimeout(ctx, silence)
		select {
		case <-l.done:
			return
		default:
		}
		switch message := message.(type) {
		case *redis.Subscription: // made anew, so messages were lost
			l.mutex.Lock()
			l.claims = false // it may be another server
			for _, h := range l.all() {
				l.doubt(h)
			}
			l.mutex.Unlock()
		case *redis.Message:
			l.hear(message.Payload)
		}
		if err == nil {
			silent, pause = false, 0
			continue
		}
		if timeout, ok := err.(interface{ Timeout() bool }); ok && timeout.Timeout() && !silent {
			silent = true
			if pubsub.Ping(ctx) == nil {
				continue
			}
		}
		_ = pubsub.Close()
		select {
		case <-l.done:
			return
		case <-time.After(pause):
		}
		silent, pause = false, min(time.Second, pause+tryAgain)
		pubsub = l.commands.Subscribe(ctx, l.channel)
		l.starting.Lock()
		l.pubsub = pubsub
		l.starting.Unlock()
	}
}

// hear reads a message. The owner comes last in it, because it may contain anything.
func (l *Locks) hear(message string) {
	word, owner, _ := strings.Cut(message, " ")
	var numbers [4]int64
	for at := range numbersOf[word] {
		var number string
		number, owner, _ = strings.Cut(owner, " ")
		numbers[at], _ = strconv.ParseInt(number, 10, 64)
	}
	fence := numbers[0]
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, h := range slices.Clone(l.entries[owner]) {
		switch {
		case word == "lost" && h.state == held && slices.Contains(h.fences, fence):
			l.lose(h, "the server says that it has ended")
		case word == "lost" && h.state == waiting: // the reply with its fence may still be on its way
			h.heardLost = append(h.heardLost, fence)
		case word == "start" && h.state == waiting && numbers[3] == h.asks: // else it is late: it was asked for again since
			h.told = &told{fence: fence, lasts: time.Duration(numbers[1]) * time.Millisecond, slot: numbers[2]}
			l.doubt(h)
		case word == "gone", word == "granted" && h.state == waiting:
			l.doubt(h)
		}
	}
}

// numbersOf tells how many numbers stand between the word of a message and the owner.
var numbersOf = map[string]int{"granted": 1, "lost": 1, "wanted": 1, "start": 4}

// doubt finds out how things are: a wait asks again, a held lock is looked at. To be called with the mutex.
func (l *Locks) doubt(h *Held) {
	if h.state == waiting {
		select {
		case h.woken <- struct{}{}:
		default:
		}
	} else if h.state == held {
		h.doubted = true
		l.plan(h, time.Now())
	}
}

// plan is to be called with the mutex.
func (l *Locks) plan(h *Held, due time.Time) {
	h.due = due
	if due = earlier(due, h.until); due.Before(l.next) {
		l.next = due
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// clock is the one timer: for renewals, and leases that end.
func (l *Locks) clock() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.mutex.Lock()
		now := time.Now()
		l.next = never()
		for _, h := range l.all() {
			if h.state == leaving && h.cancel != nil { // what still works must not outlive the lease, however long the release takes
				if now.Before(h.until) {
					l.next = earlier(l.next, h.until)
				} else {
					h.cancel(fmt.Errorf("%w: %s: its lease is over", ErrLost, h.request))
				}
			}
			if h.state != held {
				continue
			}
			if !now.Before(h.until) {
				l.lose(h, "its lease is over, and no renewal came through")
				continue
			}
			if !now.Before(h.due) {
				h.due = never()
				if !h.renewing {
					h.renewing = true
					go l.renew(h)
				}
			}
			l.next = earlier(l.next, earlier(h.until, h.due))
		}
		timer.Reset(max(time.Millisecond, time.Until(l.next)))
		l.mutex.Unlock()
		select {
		case <-l.done:
			return
		case <-l.wake:
		case <-timer.C:
		}
	}
}
