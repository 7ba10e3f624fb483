// Readers and writers, n at a time: SHARED and LIMIT, many goroutines at once, the client's default pool.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"redislock.test/redislock"
)

const readers, writers, workers, limit = 100, 5, 200, 10

// Whoever reads while somebody writes sees it: by a count of who is inside, and by a file that is written in two steps.
type book struct {
	mutex                          sync.Mutex
	path                           string
	reading, writing, most, number int
}

func (b *book) enter(writes bool) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.writing > 0 || writes && b.reading > 0 {
		return fmt.Errorf("%d write and %d read already", b.writing, b.reading)
	}
	if writes {
		b.writing++
	} else {
		b.reading++
	}
	b.most = max(b.most, b.reading)
	return nil
}

func (b *book) leave(writes bool) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if writes {
		b.writing--
	} else {
		b.reading--
	}
	if b.writing > 0 || writes && b.reading > 0 {
		return fmt.Errorf("%d write and %d read beside it", b.writing, b.reading)
	}
	return nil
}

func (b *book) read() error {
	time.Sleep(20 * time.Millisecond)
	text, err := os.ReadFile(b.path)
	if one, other, both := strings.Cut(string(text), " "); err == nil && (!both || one != other) {
		err = fmt.Errorf("torn: %q", text)
	}
	return err
}

func (b *book) write() error {
	b.number++
	first := os.WriteFile(b.path, fmt.Appendf(nil, "%d ", b.number), 0o600)
	time.Sleep(time.Millisecond) // the others' chance
	return errors.Join(first, os.WriteFile(b.path, fmt.Appendf(nil, "%d %d", b.number, b.number), 0o600))
}

func TestAHundredGoroutinesReadAndFiveWrite(t *testing.T) {
	locks, key := makeLocks(t, 0), uuid.NewString()
	shared := &book{path: filepath.Join(t.TempDir(), "book")}
	if err := shared.write(); err != nil {
		t.Fatal(err)
	}
	done := start(writers+readers, func(number int) error {
		writes, act, options := false, shared.read, []redislock.Option{redislock.Shared()}
		if number < writers {
			writes, act, options = true, shared.write, nil
		}
		for range 4 {
			err := locks.With(ctx, key, time.Minute, func(int64) error {
				if err := shared.enter(writes); err != nil {
					return err
				}
				return errors.Join(act(), shared.leave(writes))
			}, options...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	expectAll(t, writers+readers, done)
	if shared.number != 1+4*writers || shared.most < 3 {
		t.Fatal(shared.number, shared.most)
	}
}

func TestTwoHundredGoroutinesShareTenPermitsAndSomeHoldersAreKilled(t *testing.T) {
	locks, key := makeLocks(t, 0), uuid.NewString()
	var lost [5]int64
	for at := range lost {
		client := connect(t, 3)
		connection := client.Conn()
		acquire(t, connection, key, uuid.NewString(), "LIMIT", limit, "SESSION")
		lost[at] = connection.ClientID(ctx).Val()
	}
	var inside, most, served atomic.Int64
	done := start(workers, func(number int) error {
		return locks.With(ctx, key, time.Minute, func(int64) error {
			now := inside.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			time.Sleep(20 * time.Millisecond)
			inside.Add(-1)
			if served.Add(1) == 20 {
				for _, id := range lost {
					expect(t, locks.client.Do(ctx, "CLIENT", "KILL", "ID", id), 1)
				}
			}
			return nil
		}, redislock.Limit(limit))
	})
	expectAll(t, workers, done)
	if served.Load() != workers || most.Load() > limit || most.Load() < 3 {
		t.Fatal(served.Load(), most.Load())
	}
	for end := time.Now().Add(30 * time.Second); locks.client.Do(ctx, "LOCK.INFO", key).Err() != redis.Nil; {
		if time.Now().After(end) {
			t.Fatal("not all permits were given back")
		}
	}
}
