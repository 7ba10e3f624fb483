// Helpers of the tests, and sessions of raw commands with go-redis.
package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

// connect returns a client of the server in REDIS_URL, without a read timeout.
func connect(t *testing.T, protocol int) *redis.Client {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	options.Protocol, options.ReadTimeout = protocol, -1
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

// doer is a client with its pool, or one connection.
type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

func acquire(t *testing.T, client doer, key, owner string, more ...any) (fence int64) {
	t.Helper()
	grant, err := client.Do(ctx, append([]any{"LOCK.ACQUIRE", key, "OWNER", owner, "PX", 600_000}, more...)...).Slice()
	if err != nil || len(grant) != 4 || grant[0] != owner || grant[2] != int64(1) || grant[3] != int64(600_000) {
		t.Fatal(grant, err)
	}
	return grant[1].(int64)
}

func expect(t *testing.T, reply *redis.Cmd, wanted int64) {
	t.Helper()
	if got, err := reply.Int64(); err != nil || got != wanted {
		t.Fatalf("%d instead of %d, %v", got, wanted, err)
	}
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: ", what)
		}
	}
}

func untilFree(t *testing.T, client doer, key string) {
	t.Helper()
	until(t, "it is free", func() bool { return client.Do(ctx, "LOCK.INFO", key).Err() == redis.Nil })
}

func waiters(client doer, key string) any {
	reply, _ := client.Do(ctx, "LOCK.INFO", key).Result()
	switch info := reply.(type) {
	case map[any]any: // with RESP3
		return info["waiters"]
	case []any: // with RESP2
		for at := 0; at < len(info); at += 2 {
			if info[at] == "waiters" {
				return info[at+1]
			}
		}
	}
	return nil
}

func TestASessionEndsWithItsConnection(t *testing.T) {
	other := connect(t, 3)
	options := *other.Options()
	options.PushNotificationProcessor = nil // must not be shared between clients
	options.MaxRetries = -1                 // the test must notice a new connection
	client := redis.NewClient(&options)
	defer client.Close()
	session, key := client.Conn(), uuid.NewString()
	defer session.Close()

	acquire(t, session, key, "alice", "ONCE", "SESSION")
	expect(t, other.Do(ctx, "CLIENT", "KILL", "ID", session.ClientID(ctx).Val()), 1)
	untilFree(t, other, key)
	if err := session.Ping(ctx).Err(); err == nil {
		t.Fatal("nobody was told")
	}
}
