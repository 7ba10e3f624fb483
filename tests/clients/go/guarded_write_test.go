// Tests the program of the docs for writes to the lock's own server.
package main

import (
	"errors"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

func set(key string, value any) func(redis.Pipeliner) error {
	return func(pipe redis.Pipeliner) error { return pipe.Set(ctx, key, value, 0).Err() }
}

func cluster(t *testing.T) *redis.ClusterClient {
	options, err := redis.ParseClusterURL(os.Getenv("CLUSTER_URL"))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestAStaleHolderWritesNothing(t *testing.T) {
	clients := map[string]redis.UniversalClient{"RESP2": connect(t, 2), "RESP3": connect(t, 3), "cluster": cluster(t)}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			key := "{" + uuid.NewString() + "}"
			lock := key + ":lock"
			fence := acquire(t, client, lock, "alice")
			if err := Write(ctx, client, lock, fence, set(key, "first")); err != nil {
				t.Fatal(err)
			}
			// First the lock ends between the check and the write; then it is free; then somebody else holds it.
			endAndSet := func(pipe redis.Pipeliner) error {
				expect(t, client.Do(ctx, "LOCK.BREAK", lock), 1)
				return set(key, "stale")(pipe)
			}
			for at, work := range []func(redis.Pipeliner) error{endAndSet, set(key, "stale"), set(key, "stale")} {
				if err := Write(ctx, client, lock, fence, work); !errors.Is(err, ErrLockLost) {
					t.Fatal(at, err)
				}
				if at == 1 {
					acquire(t, client, lock, "bob")
				}
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
	fence := acquire(t, client, lock, "alice")
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
