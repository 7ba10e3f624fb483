// Package gocron has gocron's Locker and Elector, on the locks of Redislock.
package gocron

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"redislock.test/redislock"
)

// ErrNotLeader: another process is the leader.
var ErrNotLeader = errors.New("redislock: another process is the leader")

type locker struct {
	locks   *redislock.Locks
	options []redislock.Option
}

// NewLocker has each job run in one process at a time. It asks once: where the job runs elsewhere, it is not run here.
func NewLocker(locks *redislock.Locks, options ...redislock.Option) gocron.Locker {
	return &locker{locks, options}
}

func (l *locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	// The lock outlives the context: Unlock is what ends it.
	held, err := l.locks.TryAcquire(context.WithoutCancel(ctx), key, l.options...)
	if err != nil {
		return nil, err
	}
	return lock{held}, nil
}

type lock struct{ held *redislock.Held }

func (l lock) Unlock(ctx context.Context) error { return l.held.Release(ctx) }

// Elector has all jobs run in one process, the leader. The others wait in the lock's queue to be the next one.
type Elector struct {
	cancel context.CancelFunc
	done   chan struct{}
	mutex  sync.Mutex
	held   *redislock.Held
	err    error
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector stands for election until it is closed.
func NewElector(locks *redislock.Locks, key string, options ...redislock.Option) *Elector {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Elector{cancel: cancel, done: make(chan struct{}), err: ErrNotLeader}
	go e.stand(ctx, locks, key, options)
	return e
}

func (e *Elector) stand(ctx context.Context, locks *redislock.Locks, key string, options []redislock.Option) {
	defer close(e.done)
	for ctx.Err() == nil {
		held, err := locks.Acquire(ctx, key, options...)
		e.set(held, err)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		<-held.Context().Done()
		e.set(nil, ErrNotLeader)
		_ = held.Release(context.Background()) // if it was lost, there is nothing to release
	}
}

func (e *Elector) set(held *redislock.Held, err error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.held, e.err = held, err
}

// IsLeader returns nil in the leader, else why this process is not it.
func (e *Elector) IsLeader(context.Context) error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.held != nil {
		return e.held.Err()
	}
	return e.err
}

// Close stands down: the next one becomes the leader.
func (e *Elector) Close() {
	e.cancel()
	<-e.done
}
