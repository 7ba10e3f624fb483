// Many goroutines in one process: waits need no connection.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"redislock.test/redislock"
)

func makeLocks(t *testing.T, poolSize int) *Locks {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	options.PoolSize = poolSize
	return shareLocks(t, redis.NewClient(options))
}

func shareLocks(t *testing.T, client redis.UniversalClient) *Locks {
	locks := redislock.New(client)
	t.Cleanup(func() { locks.Close(); client.Close() })
	return &Locks{client, locks, time.Minute}
}

// start runs it in that many goroutines at once. The channel gets what they say.
func start(count int, work func(number int) error) chan error {
	done := make(chan error, count)
	for number := range count {
		go func() { done <- work(number) }()
	}
	return done
}

func expectAll(t *testing.T, count int, done chan error) {
	t.Helper()
	for range count {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("not within 30 s")
		}
	}
}

func takeTurns(t *testing.T, locks *Locks, goroutines, rounds int) {
	key := uuid.NewString()
	var inside atomic.Int64
	var fences []int64 // behind the lock
	done := start(goroutines, func(int) error {
		for range rounds {
			err := locks.With(ctx, key, time.Minute, func(fence int64) error {
				defer inside.Add(-1)
				if inside.Add(1) != 1 {
					return errors.New("two have the lock")
				}
				time.Sleep(100 * time.Microsecond) // the others' chance
				fences = append(fences, fence)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	expectAll(t, goroutines, done)
	if len(fences) != goroutines*rounds || !slices.IsSorted(fences) {
		t.Fatal(len(fences))
	}
}

func TestAHundredGoroutinesTakeTurnsAtOneLock(t *testing.T) {
	takeTurns(t, makeLocks(t, 0), 100, 20)
}

func TestGoroutinesTakeTurnsOnACluster(t *testing.T) {
	options, err := redis.ParseClusterURL(os.Getenv("CLUSTER_URL"))
	if err != nil {
		t.Fatal(err)
	}
	locks := shareLocks(t, redis.NewClusterClient(options))
	takeTurns(t, locks, 20, 20)
	impatient := &Locks{locks.client, locks.locks, 20 * time.Millisecond}
	err = locks.With(ctx, "door", time.Minute, func(int64) error {
		return impatient.With(ctx, "door", time.Minute, func(int64) error { return errors.New("two have the lock") })
	})
	if !errors.Is(err, redislock.ErrNotAcquired) {
		t.Fatal(err)
	}
}

func TestFiveHundredBuyersOfFiveArticles(t *testing.T) {
	locks, sale := makeLocks(t, 0), uuid.NewString()
	article := func(number int) string { return fmt.Sprintf("%s:%d", sale, number%5) }
	for number := range 5 {
		locks.client.Set(ctx, article(number), 40, 0)
	}
	var sold [5]int // each behind its lock
	done := start(500, func(number int) error {
		return locks.With(ctx, "lock:"+article(number), time.Minute, func(int64) error {
			left, err := locks.client.Get(ctx, article(number)).Int()
			time.Sleep(2 * time.Millisecond) // the others' chance
			if err != nil || left == 0 {
				return err
			}
			sold[number%5]++
			return locks.client.Set(ctx, article(number), left-1, 0).Err()
		})
	})
	expectAll(t, 500, done)
	if sold != [5]int{40, 40, 40, 40, 40} {
		t.Fatal(sold)
	}
}

// The holder of the outer lock waits for the inner one, while more goroutines than there are connections wait for the outer.
func TestThoseWhoWaitForOneLockDoNotHinderAnother(t *testing.T) {
	locks, outer, inner := makeLocks(t, 0), uuid.NewString(), uuid.NewString()
	acquire(t, locks.client, inner, "other")
	var later chan error
	err := locks.With(ctx, outer, time.Minute, func(int64) error {
		later = start(20, func(int) error { return locks.With(ctx, outer, time.Minute, func(int64) error { return nil }) })
		untilWaiters(t, locks.client, outer, 20)
		nested := start(1, func(int) error { return locks.With(ctx, inner, time.Minute, func(int64) error { return nil }) })
		untilWaiters(t, locks.client, inner, 1)
		expect(t, locks.client.Do(ctx, "LOCK.RELEASE", inner, "other"), 0)
		expectAll(t, 1, nested)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expectAll(t, 20, later)
}

func TestWaitsNeedNoneOfTheClientsConnections(t *testing.T) {
	locks := makeLocks(t, 2)
	keys := make([]string, 8)
	for at := range keys {
		keys[at] = uuid.NewString()
		acquire(t, locks.client, keys[at], "other")
	}
	done := start(8, func(number int) error {
		return locks.With(ctx, keys[number], time.Minute, func(int64) error { return nil })
	})
	for _, key := range keys {
		untilWaiters(t, locks.client, key, 1)
	}
	for _, key := range keys {
		expect(t, locks.client.Do(ctx, "LOCK.RELEASE", key, "other"), 0)
	}
	expectAll(t, 8, done)
}

func TestThoseWhoWaitInVainAreTold(t *testing.T) {
	locks, key := makeLocks(t, 0), uuid.NewString()
	locks.wait = 50 * time.Millisecond
	acquire(t, locks.client, key, "other")
	done := start(20, func(int) error {
		err := locks.With(ctx, key, time.Minute, func(int64) error { return errors.New("two have the lock") })
		if !errors.Is(err, redislock.ErrNotAcquired) {
			return fmt.Errorf("nobody was told: %w", err)
		}
		return nil
	})
	expectAll(t, 20, done)
}

func TestACancelledContextLeavesNoLockHeld(t *testing.T) {
	locks, key := makeLocks(t, 0), uuid.NewString()
	acquire(t, locks.client, key, "other")
	ctx, cancel := context.WithCancel(ctx)
	with := func(int) error {
		err := locks.With(ctx, key, time.Minute, func(int64) error { return errors.New("the body ran") })
		if err != context.Canceled {
			return fmt.Errorf("not cancelled: %w", err)
		}
		return nil
	}
	waits := start(20, with)
	untilWaiters(t, locks.client, key, 20)
	cancel()
	expectAll(t, 20, waits)
	untilWaiters(t, connect(t, 3), key, 0)
	expect(t, locks.client.Do(context.Background(), "LOCK.RELEASE", key, "other"), 0)
	if err := locks.client.Do(context.Background(), "LOCK.INFO", key).Err(); err != redis.Nil {
		t.Fatal("the lock is held", err)
	}
}
