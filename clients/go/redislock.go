// Package redislock has locks of a Redis or Valkey server with the module Redislock, for programs that use go-redis. docs/protocol.md
// describes the protocol.
package redislock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	askAgain = 4 * time.Second // less than the server's setting lock.claim, so a lost message delays the grant but does not lose it
	tryAgain = 100 * time.Millisecond
	silence  = 4 * time.Second       // without a message, the subscription is pinged; after as long again, it is made anew
	parting  = 40 * time.Millisecond // the longest that a caller waits for a place to be given up
	noLease  = 30 * time.Second      // assumed for a lease whose length is unknown
	commands = 8                     // connections for commands, shared by all goroutines
)

// Locks are the locks of a process: make one for each client, and share it between all goroutines.
type Locks struct {
	client             redis.UniversalClient // the user's own client: it makes the subscription, and closing it ends these locks
	commands, sessions redis.UniversalClient
	cluster            *redis.ClusterClient // the client for commands, if it is a cluster's
	own, single        bool                 // own: close the clients too; single: not a cluster
	channel            string
	starting           chan struct{} // a semaphore of one, for subscribing
	pubsub             *redis.PubSub // guarded by starting; later used only by the listener
	failed             time.Time     // guarded by starting
	failure            error
	wake, more         chan struct{}
	asking             atomic.Bool // a caller is sending its command itself, without the workers
	done               chan struct{}
	running            sync.WaitGroup

	ending, ticking sync.Once

	mutex     sync.Mutex
	closed    error // why the locks are closed; nil while they are open
	working   bool  // workers run, and send l.jobs
	jobs      []job
	observers []Observer
	claims    bool // the server does not know START, so each grant has to be claimed
	next      time.Time
	entries   map[string][]*Held // by owner
	shards    map[string]*shard  // by the primary's address
}

var odd = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// newChannel makes a unique channel name. It contains host and process, which LOCK.INFO shows to operators.
func newChannel() string {
	host, _ := os.Hostname()
	host = odd.ReplaceAllString(host, "_")
	return fmt.Sprintf("redislock:%s:%d:%s", host[:min(len(host), 64)], os.Getpid(), newUUID())
}

// New makes connections of its own with the settings of the client (a Client, also of Sentinel, or a ClusterClient), whose pool may be
// small or busy. Any other UniversalClient is used itself. Closing the client also closes the locks.
func New(client redis.UniversalClient, observers ...Observer) *Locks {
	l := &Locks{
		client: client, commands: client, sessions: client, channel: newChannel(), wake: make(chan struct{}, 1),
		more: make(chan struct{}, commands),
		done: make(chan struct{}), starting: make(chan struct{}, 1), entries: map[string][]*Held{}, shards: map[string]*shard{},
		next: never(), observers: observers,
	}
	switch client := client.(type) {
	case *redis.Client:
		l.own, l.single = true, true
		single := func(size int) redis.UniversalClient {
			o := *client.Options()
			o.PushNotificationProcessor = nil // must not be shared between clients
			o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = size, 0, 0, 0
			lasting(&o.MaxRetries, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.ConnMaxIdleTime, &o.ConnMaxLifetime)
			return redis.NewClient(&o)
		}
		l.commands, l.sessions = single(commands), single(1)
	case *redis.ClusterClient:
		l.own = true
		cluster := func(size int) *redis.ClusterClient {
			o := *client.Options()
			o.PushNotificationProcessor = nil
			o.Addrs = slices.Clip(o.Addrs) // a copy: each client appends the nodes that it finds
			o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = size, 0, 0, 0
			o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
			lasting(&o.MaxRetries, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.ConnMaxIdleTime, &o.ConnMaxLifetime)
			return redis.NewClusterClient(&o)
		}
		l.cluster = cluster(commands)
		l.commands, l.sessions = l.cluster, cluster(1)
	}
	return l
}

// lasting makes connections stay open, since places end with them, and switches off go-redis's retries: this package retries.
func lasting(retries *int, read, write, pool, idle, life *time.Duration) {
	*retries, *pool, *idle, *life = -1, 30*time.Second, -1, -1
	for _, timeout := range []*time.Duration{read, write} {
		if *timeout == 0 { // 0 here means none (the user set -1), but to go-redis the default
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

// TryAcquire asks once, without waiting. ErrNotAcquired means that somebody else holds the lock.
func (l *Locks) TryAcquire(ctx context.Context, key string, options ...Option) (*Held, error) {
	return l.Acquire(ctx, key, append(slices.Clone(options), Wait(0))...)
}

// AcquireAll waits for several locks at once, all or none.
func (l *Locks) AcquireAll(ctx context.Context, keys []string, options ...Option) (*Held, error) {
	r, err := newRequest(keys, options)
	if err != nil {
		return nil, err
	}
	o := l.observe(ctx, r)
	if ctx.Err() != nil {
		return nil, o.refused(ctx, r, context.Cause(ctx))
	}
	h := &Held{locks: l, request: r, observation: o, woken: make(chan struct{}, 1), turn: make(chan struct{}, 1), over: make(chan struct{}), until: never(), due: never(), atMost: never(), lease: noLease}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	l.mutex.Lock()
	if l.closed != nil {
		l.mutex.Unlock()
		h.cancel(l.closed)
		return nil, o.refused(ctx, r, l.closed)
	}
	l.entries[r.owner] = append(l.entries[r.owner], h)
	l.mutex.Unlock()
	if err := l.wait(ctx, h); err != nil {
		h.cancel(err)
		return nil, o.refused(ctx, r, err)
	}
	o.acquired(h)
	return h, nil
}

// Close releases what is held, and ends all waits. The user's own client stays open.
func (l *Locks) Close() error {
	l.ending.Do(func() { l.end(ErrClosed) })
	return nil
}

// endsWith closes the locks if the error says that the client was closed. Nobody told the holders to stop, so their locks are lost.
func (l *Locks) endsWith(err error) bool {
	ends := errors.Is(err, redis.ErrClosed)
	if ends {
		go l.ending.Do(func() { l.end(errClient) })
	}
	return ends
}

func (l *Locks) end(why error) {
	l.mutex.Lock()
	l.closed = why
	close(l.done)
	if why == errClient {
		for _, h := range l.all() {
			l.lose(h, why)
		}
	}
	all := l.all()
	for _, h := range all { // tell the holders to stop before somebody else can get the lock
		if h.state == held {
			h.cancel(why)
		}
	}
	l.mutex.Unlock()
	var parts sync.WaitGroup
	for _, h := range all {
		parts.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), silence)
			defer cancel()
			if err := h.Release(ctx); errors.Is(err, context.DeadlineExceeded) {
				_ = h.observation.ending(h)(fmt.Errorf("%w: %s: %w", ErrLost, h.request, errUnheard))
			} else if err == nil { // a wait, or a release in progress, ends by itself
				select {
				case <-h.over:
				case <-ctx.Done():
				}
			}
		})
	}
	parts.Wait()
	l.starting <- struct{}{}
	subscriptions := []*redis.PubSub{l.pubsub}
	<-l.starting
	l.mutex.Lock()
	for _, s := range l.shards {
		subscriptions = append(subscriptions, s.pubsub)
	}
	l.mutex.Unlock()
	for _, pubsub := range subscriptions {
		if pubsub != nil {
			_ = pubsub.Close()
		}
	}
	l.running.Wait()
	if l.own {
		_ = l.sessions.Close()
		_ = l.commands.Close()
	}
}

// all returns all waits and held locks. The caller has the mutex.
func (l *Locks) all() (all []*Held) {
	for _, those := range l.entries {
		all = append(all, those...)
	}
	return all
}

// forget removes h, unless an extension is still to be answered, which counts for others of the same grant. The caller has the mutex.
func (l *Locks) forget(h *Held) {
	if h.sets > 0 {
		return
	}
	those := l.entries[h.request.owner]
	if at := slices.Index(those, h); at >= 0 {
		those = slices.Delete(those, at, at+1)
	}
	if l.entries[h.request.owner] = those; len(those) == 0 {
		delete(l.entries, h.request.owner)
	}
}

// partner returns another Held in one of these states that shares the grant of h, or will share it. The caller has the mutex.
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

// plan sets when the timer has to act on h. The caller has the mutex.
func (l *Locks) plan(h *Held, due time.Time) {
	h.due = due
	l.ticking.Do(func() { l.running.Go(l.clock) })
	if due = earlier(due, h.until); due.Before(l.next) {
		l.next = due
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// clock runs the one timer, for renewals and for leases that end.
func (l *Locks) clock() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.mutex.Lock()
		now := time.Now()
		l.next = never()
		for _, h := range l.all() {
			if h.state == leaving && h.cancel != nil { // the holder must stop when the lease ends, even if the release takes longer
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
				l.lose(h, errOver)
				continue
			}
			if !h.renewing && !now.Before(h.due) {
				h.renewing = true
				go l.renew(h)
			}
			if l.next = earlier(l.next, h.until); !h.renewing {
				l.next = earlier(l.next, h.due)
			}
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
