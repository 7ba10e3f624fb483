// Tests what the conformance scenarios leave out: contexts that end at any moment, and leaked goroutines.
package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"redislock.test/redislock"
)

func open(t *testing.T, client redis.UniversalClient) *redislock.Locks {
	locks := redislock.New(client)
	t.Cleanup(func() { locks.Close() })
	return locks
}

// all runs the work in this many goroutines at once.
func all(t *testing.T, count int, work func(number int) error) {
	t.Helper()
	done := make(chan error, count)
	for number := range count {
		go func() { done <- work(number) }()
	}
	for range count {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("not within a minute")
		}
	}
}

func TestAcquisitionsThatAreCancelledAnywhereLeaveNothing(t *testing.T) {
	client, key := connect(t, 3), uuid.NewString()
	locks := open(t, client)
	var inside, cancelled, served atomic.Int64
	round := func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(40_000))*time.Microsecond)
		defer cancel()
		held, err := locks.Acquire(ctx, key)
		if errors.Is(err, context.DeadlineExceeded) {
			cancelled.Add(1)
			return nil
		}
		if err != nil {
			return err
		}
		if inside.Add(1) != 1 {
			return errors.New("two have the lock")
		}
		served.Add(1)
		inside.Add(-1)
		if err = held.Release(ctx); errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	}
	before := runtime.NumGoroutine()
	all(t, 50, func(int) error {
		for range 60 {
			if err := round(); err != nil {
				return err
			}
		}
		return nil
	})
	if served.Load() == 0 || cancelled.Load() == 0 {
		t.Fatal(served.Load(), cancelled.Load())
	}
	untilFree(t, client, key)
	locks.Close()
	client.Close()
	until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}
