// Thousands of acquisitions, many of which are cancelled somewhere on the way.
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

func untilFree(t *testing.T, client doer, key string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); client.Do(ctx, "LOCK.INFO", key).Err() != redis.Nil; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not free within 30 s")
		}
	}
}

func TestAcquisitionsThatAreCancelledAnywhereLeaveNothing(t *testing.T) {
	locks, key := makeLocks(t, 1), uuid.NewString()
	var inside, cancelled, served atomic.Int64
	done := start(50, func(int) error {
		for range 60 {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(40_000))*time.Microsecond)
			held, err := locks.locks.Acquire(ctx, key)
			defer cancel() // at the end of all rounds
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					return err
				}
				cancelled.Add(1)
				continue
			}
			if inside.Add(1) != 1 {
				return errors.New("two have the lock")
			}
			served.Add(1)
			inside.Add(-1)
			err = held.Release(ctx)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		}
		return nil
	})
	expectAll(t, 50, done)
	if served.Load() == 0 || cancelled.Load() == 0 {
		t.Fatal(served.Load(), cancelled.Load())
	}
	untilFree(t, locks.client, key)
}

func TestThousandsOfAcquisitionsLeaveNoGoroutine(t *testing.T) {
	locks := makeLocks(t, 0)
	round := func(count int) {
		done := start(20, func(number int) error {
			for range count {
				held, err := locks.locks.Acquire(ctx, t.Name()+string(rune('a'+number%5)))
				if err != nil {
					return err
				}
				if err := held.Release(ctx); err != nil {
					return err
				}
			}
			return nil
		})
		expectAll(t, 20, done)
	}
	round(5) // connections are made
	before := runtime.NumGoroutine()
	round(250)
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before+2; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines instead of %d", runtime.NumGoroutine(), before)
		}
	}
}

// ONCE adds no hold: one of them could end the grant of the others.
func TestGoroutinesOfOneOwnerShareAGrantWithoutEndingIt(t *testing.T) {
	locks, key := makeLocks(t, 0), uuid.NewString()
	done := start(20, func(int) error {
		for range 50 {
			held, err := locks.locks.Acquire(ctx, key, redislock.Owner("alice"))
			if err != nil {
				return err
			}
			if info := locks.client.Do(ctx, "LOCK.EXTEND", key, "alice", "FENCE", held.Fence()); info.Err() != nil {
				return info.Err()
			}
			if err := held.Release(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	expectAll(t, 20, done)
	untilFree(t, locks.client, key)
}
