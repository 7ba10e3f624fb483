// What the conformance scenarios can't try, since it is Go's: contexts, goroutines, nested locks, errors.
package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
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

// all runs it in that many goroutines at once.
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
	all(t, 50, func(int) error {
		for range 60 {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(40_000))*time.Microsecond)
			defer cancel() // at the end of all rounds
			held, err := locks.Acquire(ctx, key)
			if errors.Is(err, context.DeadlineExceeded) {
				cancelled.Add(1)
				continue
			}
			if err != nil {
				return err
			}
			if inside.Add(1) != 1 {
				return errors.New("two have the lock")
			}
			served.Add(1)
			inside.Add(-1)
			if err = held.Release(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		}
		return nil
	})
	if served.Load() == 0 || cancelled.Load() == 0 {
		t.Fatal(served.Load(), cancelled.Load())
	}
	untilFree(t, client, key)
}

func TestThousandsOfAcquisitionsLeaveNoGoroutine(t *testing.T) {
	locks := open(t, connect(t, 3))
	round := func(count int) {
		all(t, 20, func(number int) error {
			for range count {
				held, err := locks.Acquire(ctx, t.Name()+string(rune('a'+number%5)))
				if err != nil {
					return err
				}
				if err := held.Release(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	round(5) // connections are made
	before := runtime.NumGoroutine()
	round(250)
	until(t, "no more goroutines than before", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// ONCE adds no hold: one of them could end the grant of the others.
func TestGoroutinesOfOneOwnerShareAGrantWithoutEndingIt(t *testing.T) {
	client, key := connect(t, 3), uuid.NewString()
	locks := open(t, client)
	all(t, 20, func(int) error {
		for range 50 {
			held, err := locks.Acquire(ctx, key, redislock.Owner("alice"))
			if err != nil {
				return err
			}
			if info := client.Do(ctx, "LOCK.EXTEND", key, "alice", "FENCE", held.Fence()); info.Err() != nil {
				return info.Err()
			}
			if err := held.Release(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	untilFree(t, client, key)
}

func TestGoroutinesTakeTurnsOnACluster(t *testing.T) {
	options, err := redis.ParseClusterURL(os.Getenv("CLUSTER_URL"))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(options)
	defer client.Close()
	locks, key := open(t, client), uuid.NewString()
	var fences []int64 // behind the lock
	all(t, 20, func(int) error {
		for range 20 {
			held, err := locks.Acquire(ctx, key)
			if err != nil {
				return err
			}
			fences = append(fences, held.Fence())
			if err := held.Release(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if len(fences) != 400 || !slices.IsSorted(fences) {
		t.Fatal(len(fences))
	}
}

// The holder of the outer lock waits for the inner one, while more goroutines than there are connections wait for the outer.
func TestThoseWhoWaitForOneLockDoNotHinderAnother(t *testing.T) {
	options, _ := redis.ParseURL(os.Getenv("REDIS_URL"))
	options.PoolSize = 2
	client := redis.NewClient(options)
	defer client.Close()
	locks, other, outer, inner := open(t, client), connect(t, 3), uuid.NewString(), uuid.NewString()
	acquire(t, other, inner, "other")
	take := func(key string) error {
		held, err := locks.Acquire(ctx, key)
		if err != nil {
			return err
		}
		return held.Release(ctx)
	}
	held, err := locks.Acquire(ctx, outer)
	if err != nil {
		t.Fatal(err)
	}
	later := make(chan error, 20)
	for range 20 {
		go func() { later <- take(outer) }()
	}
	until(t, "20 wait", func() bool { return waiters(other, outer) == int64(20) })
	all(t, 2, func(number int) error {
		if number == 0 {
			return take(inner)
		}
		until(t, "it waits", func() bool { return waiters(other, inner) == int64(1) })
		return other.Do(ctx, "LOCK.RELEASE", inner, "other").Err()
	})
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	all(t, 20, func(int) error { return <-later })
}

func TestACancelledContextLeavesNoLockHeld(t *testing.T) {
	other, key := connect(t, 3), uuid.NewString()
	locks := open(t, connect(t, 3))
	acquire(t, other, key, "other")
	ctx, cancel := context.WithCancel(ctx)
	waits := make(chan error, 20)
	for range 20 {
		go func() { _, err := locks.Acquire(ctx, key); waits <- err }()
	}
	until(t, "20 wait", func() bool { return waiters(other, key) == int64(20) })
	cancel()
	all(t, 20, func(int) error {
		if err := <-waits; err != context.Canceled {
			return errors.Join(errors.New("not cancelled"), err)
		}
		return nil
	})
	until(t, "all have left", func() bool { return waiters(other, key) == int64(0) })
}

func TestAWaitWithoutAnAnswerBlamesNobody(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), ReadTimeout: time.Second})
	defer client.Close()
	_, err = open(t, client).Acquire(ctx, t.Name(), redislock.Wait(300*time.Millisecond))
	if !errors.Is(err, redislock.ErrNotAcquired) || !strings.Contains(err.Error(), "no answer") {
		t.Fatal(err)
	}
}
