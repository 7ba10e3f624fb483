// Package gocron implements gocron's Locker and Elector with the locks of Redislock.
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

// NewLocker lets each job run in only one process at a time. It does not wait: a job that runs elsewhere is skipped here.
func NewLocker(locks *redislock.Locks, options ...redislock.Option) gocron.Locker {
	return &locker{locks, options}
}

func (l *locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	// gocron may end the context before the job ends: only Unlock is to end the lock.
	held, err := l.locks.TryAcquire(context.WithoutCancel(ctx), key, l.options...)
	if err != nil {
		return nil, err
	}
	return lock{held}, nil
}

type lock struct{ held *redislock.Held }

func (l lock) Unlock(ctx context.Context) error { return l.held.Release(ctx) }

// Elector lets all jobs run in only one process, the leader. The other processes wait in the lock's queue to become the next leader.
type Elector struct {
	cancel context.CancelFunc
	done   chan struct{}
	mutex  sync.Mutex
	held   *redislock.Held
	err    error
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector starts to wait for the leadership; Close ends this.
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
		_ = held.Release(context.Background()) // an error only says that the lock was lost before
	}
}

func (e *Elector) set(held *redislock.Held, err error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.held, e.err = held, err
}

// IsLeader returns nil in the leader, and ErrNotLeader or the reason of a failure in any other process.
func (e *Elector) IsLeader(context.Context) error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.held != nil {
		return e.held.Err()
	}
	return e.err
}

// Close gives up the leadership, so that the next process in the queue becomes the leader.
func (e *Elector) Close() {
	e.cancel()
	<-e.done
}
