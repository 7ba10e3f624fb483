package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"redislock.test/redislock"
)

// Step is how far a program has come from redsync's lock to Redislock's. Two neighbouring steps can run beside each other.
type Step int

const (
	Old Step = iota
	Both
	New
)

// Alone does the work alone. Locks are waited for so long at most, and renewed: if one is lost, the context of the work ends.
func (step Step) Alone(ctx context.Context, old *redsync.Redsync, locks *redislock.Locks, name string,
	lease, wait time.Duration, work func(context.Context) error) (err error) {
	end := time.Now().Add(wait)
	if step != New {
		mutex := old.NewMutex("lock:"+name, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt32))
		waiting, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		if err := mutex.LockContext(waiting); err != nil {
			return err
		}
		kept, stop := keep(ctx, mutex, lease)
		defer func() {
			stop()
			_, unlocked := mutex.UnlockContext(context.WithoutCancel(ctx))
			err = errors.Join(err, unlocked)
		}()
		ctx = kept
	}
	if step != Old {
		held, refused := locks.Acquire(ctx, "redislock:"+name, redislock.Lease(lease), redislock.Wait(max(0, time.Until(end))))
		if refused != nil {
			return refused
		}
		defer func() { err = errors.Join(err, held.Release(context.WithoutCancel(ctx))) }()
		ctx = held.Context()
	}
	return work(ctx)
}

// keep extends the old lock, which redsync does not do by itself. The context ends with the lock.
func keep(ctx context.Context, mutex *redsync.Mutex, lease time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := time.AfterFunc(time.Until(mutex.Until()), func() { cancel(errors.New("the old lock is over, and could not be extended")) })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(lease / 3):
			}
			extended, err := mutex.ExtendContext(ctx)
			if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
				cancel(err) // it is somebody else's, or free
			} else if extended {
				over.Reset(time.Until(mutex.Until()))
			}
		}
	}()
	return ctx, func() { cancel(nil); over.Stop(); <-stopped }
}
