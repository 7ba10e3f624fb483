// Writes to the server of the lock, with the program of the docs.
package main

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

func set(key string, value any) func(redis.Pipeliner) error {
	return func(pipe redis.Pipeliner) error { return pipe.Set(ctx, key, value, 0).Err() }
}

func TestAStaleHolderWritesNothing(t *testing.T) {
	for name, protocol := range map[string]int{"RESP2": 2, "RESP3": 3} {
		t.Run(name, func(t *testing.T) {
			client, key := connect(t, protocol), "{"+uuid.NewString()+"}"
			lock := key + ":lock"
			fence, _ := acquire(t, client, lock, "alice")
			if err := Write(ctx, client, lock, fence, set(key, "first")); err != nil {
				t.Fatal(err)
			}
			// The lock ends between the look and the write.
			err := Write(ctx, client, lock, fence, func(pipe redis.Pipeliner) error {
				expect(t, connect(t, 3).Do(ctx, "LOCK.BREAK", lock), 1)
				return set(key, "stale")(pipe)
			})
			if !errors.Is(err, ErrLockLost) {
				t.Fatal(err)
			}
			acquire(t, client, lock, "bob")
			if err := Write(ctx, client, lock, fence, set(key, "stale")); !errors.Is(err, ErrLockLost) {
				t.Fatal(err)
			}
			if text := client.Get(ctx, key).Val(); text != "first" {
				t.Fatal(text)
			}
		})
	}
}

func TestAnExtensionInBetweenHasItTriedAgain(t *testing.T) {
	client, key := connect(t, 3), "{"+uuid.NewString()+"}"
	lock := key + ":lock"
	fence, _ := acquire(t, client, lock, "alice")
	tries := 0
	err := Write(ctx, client, lock, fence, func(pipe redis.Pipeliner) error {
		if tries++; tries == 1 {
			expect(t, client.Do(ctx, "LOCK.EXTEND", lock, "alice", "PX", 20000), 20000)
		}
		return set(key, tries)(pipe)
	})
	if written, _ := client.Get(ctx, key).Int(); err != nil || tries != 2 || written != 2 {
		t.Fatal(err, tries, written)
	}
}

func TestGoroutinesWriteOnACluster(t *testing.T) {
	options, err := redis.ParseClusterURL(os.Getenv("CLUSTER_URL"))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(options)
	defer client.Close()
	all(t, 20, func(int) error {
		key := "{" + uuid.NewString() + "}"
		lock := key + ":lock"
		grant, err := client.Do(ctx, "LOCK.ACQUIRE", lock, "OWNER", "alice").Slice()
		if err != nil {
			return err
		}
		fence := grant[1].(int64)
		if err := Write(ctx, client, lock, fence, set(key, "first")); err != nil {
			return err
		}
		if err := client.Do(ctx, "LOCK.RELEASE", lock, "alice").Err(); err != nil {
			return err
		}
		if err := Write(ctx, client, lock, fence, set(key, "stale")); !errors.Is(err, ErrLockLost) {
			return fmt.Errorf("written without the lock: %w", err)
		}
		if text := client.Get(ctx, key).Val(); text != "first" {
			return errors.New(text)
		}
		return nil
	})
}
