// Programs move from redsync's lock to ours while they run: no two may work at any moment.
package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"redislock.test/redislock"
)

type migrating struct {
	old   *redsync.Redsync
	locks *redislock.Locks
	name  string
}

func migrates(t *testing.T) migrating {
	client := connect(t, 3)
	return migrating{redsync.New(goredis.NewPool(client)), open(t, client), t.Name()}
}

func (m migrating) alone(step Step, lease, wait time.Duration, work func(context.Context) error) error {
	return step.Alone(ctx, m.old, m.locks, m.name, lease, wait, work)
}

func TestNeighbouringStepsKeepEachOtherOut(t *testing.T) {
	m := migrates(t)
	for _, pair := range [][2]Step{{Old, Old}, {Old, Both}, {Both, Old}, {Both, Both}, {Both, New}, {New, Both}, {New, New}} {
		err := m.alone(pair[0], 30*time.Second, time.Minute, func(context.Context) error {
			if m.alone(pair[1], 30*time.Second, time.Millisecond, func(context.Context) error { return nil }) == nil {
				t.Error(pair, "are both at work")
			}
			return nil
		})
		if err != nil {
			t.Fatal(pair, err)
		}
	}
}

func TestTwoVersionsBesideEachOtherAreNeverBothAtWork(t *testing.T) {
	m := migrates(t)
	var inside, served atomic.Int64
	for _, steps := range [][2]Step{{Old, Both}, {Both, New}} {
		all(t, 8, func(number int) error {
			for range 5 {
				err := m.alone(steps[number%2], 30*time.Second, time.Minute, func(context.Context) error {
					defer inside.Add(-1)
					if inside.Add(1) != 1 {
						return errors.New("two are at work")
					}
					time.Sleep(time.Millisecond)
					served.Add(1)
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if served.Load() != 80 {
		t.Fatal(served.Load())
	}
}

func TestBothLocksOutliveTheirLease(t *testing.T) {
	m, client := migrates(t), connect(t, 3)
	lease := 600 * time.Millisecond
	err := m.alone(Both, lease, time.Minute, func(work context.Context) error {
		for end := time.Now().Add(3 * lease); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if client.Exists(ctx, "lock:"+m.name, "redislock:"+m.name).Val() != 2 {
				return errors.New("one of the locks is gone")
			}
		}
		return work.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWorkEndsWithTheOldLock(t *testing.T) {
	m, client := migrates(t), connect(t, 3)
	err := m.alone(Both, 600*time.Millisecond, time.Minute, func(work context.Context) error {
		client.Del(ctx, "lock:"+m.name)
		within(t, work.Done())
		return context.Cause(work)
	})
	if err == nil {
		t.Fatal("nothing was told")
	}
}
