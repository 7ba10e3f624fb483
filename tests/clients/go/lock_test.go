// Raw commands through go-redis, on its pool and on one connection, in RESP2 and RESP3; and the package.
package main

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"redislock.test/redislock"
)

var ctx = context.Background()

// A client of the server that REDIS_URL names; it waits as long as it takes.
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

// What has Do: a client with its pool, or one connection.
type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

func acquire(t *testing.T, client doer, key, owner string, more ...any) (fence, holds int64) {
	t.Helper()
	grant, err := client.Do(ctx, append([]any{"LOCK.ACQUIRE", key, "OWNER", owner, "PX", 30000}, more...)...).Slice()
	if err != nil || len(grant) < 4 || grant[0] != owner {
		t.Fatal(grant, err)
	}
	return grant[1].(int64), grant[2].(int64)
}

func expect(t *testing.T, reply *redis.Cmd, wanted int64) {
	t.Helper()
	if got, err := reply.Int64(); err != nil || got != wanted {
		t.Fatalf("%d instead of %d, %v", got, wanted, err)
	}
}

func untilWaiters(t *testing.T, client doer, key string, wanted int64) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		reply, err := client.Do(ctx, "LOCK.INFO", key).Result()
		if err != nil {
			t.Fatal(err)
		}
		var waiters any
		switch info := reply.(type) {
		case map[any]any: // RESP3
			waiters = info["waiters"]
		case []any: // RESP2
			for at := 0; at < len(info); at += 2 {
				if info[at] == "waiters" {
					waiters = info[at+1]
				}
			}
		}
		if waiters == wanted {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %d waiters; there are %v", wanted, waiters)
		}
	}
}

func TestALockFromItsGrantToItsEnd(t *testing.T) {
	for name, protocol := range map[string]int{"RESP2": 2, "RESP3": 3} {
		pool := connect(t, protocol)
		connection := pool.Conn()
		defer connection.Close()
		for kind, client := range map[string]doer{"pool": pool, "one connection": connection} {
			t.Run(name+", "+kind, func(t *testing.T) { fromGrantToEnd(t, client, pool) })
		}
	}
}

func fromGrantToEnd(t *testing.T, client doer, pool *redis.Client) {
	key := uuid.NewString()
	fence, holds := acquire(t, client, key, "alice")
	if again, twice := acquire(t, client, key, "alice"); holds != 1 || again != fence || twice != 2 {
		t.Fatal(holds, again, twice)
	}
	// The same owner on another connection: the same grant, without another hold.
	if again, holds := acquire(t, pool, key, "alice", "ONCE"); again != fence || holds != 2 {
		t.Fatal(again, holds)
	}
	expect(t, client.Do(ctx, "LOCK.EXTEND", key, "alice", "EX", 60, "FENCE", fence), 60000)
	if err := client.Do(ctx, "LOCK.ACQUIRE", key, "OWNER", "bob").Err(); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}

	// The pool gives each wait a connection of its own.
	granted := make(chan int64)
	go func() {
		next, _ := pool.Do(ctx, "LOCK.ACQUIRE", key, "OWNER", "bob", "PX", 30000, "BLOCK", 0).Slice()
		if len(next) < 4 {
			close(granted)
			return
		}
		granted <- next[1].(int64)
	}()
	untilWaiters(t, client, key, 1)
	expect(t, client.Do(ctx, "LOCK.RELEASE", key, "alice", "FENCE", fence), 1)
	expect(t, client.Do(ctx, "LOCK.RELEASE", key, "alice", "FENCE", fence), 0)
	if next := <-granted; next <= fence {
		t.Fatal(next, fence)
	}
	if err := client.Do(ctx, "LOCK.EXTEND", key, "alice").Err(); !redis.HasErrorPrefix(err, "NOTHELD") {
		t.Fatal(err)
	}
	expect(t, client.Do(ctx, "LOCK.RELEASE", key, "bob", "ALL"), 0)
	if err := client.Do(ctx, "LOCK.INFO", key).Err(); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}

func TestTheLocksOfThePackage(t *testing.T) {
	client := connect(t, 3)
	key, failure := uuid.NewString(), errors.New("of the body")
	shared := redislock.New(client)
	defer shared.Close()
	with := func(wait time.Duration, body func() error) error {
		return (&Locks{client, shared, wait}).With(ctx, key, time.Hour, func(int64) error { return body() })
	}
	lose := func() error { return client.Do(ctx, "LOCK.BREAK", key).Err() }

	// One that waits gets it when it is free, and no sooner.
	var entered []string
	second := make(chan error, 1)
	err := with(time.Minute, func() error {
		go func() { second <- with(time.Minute, func() error { entered = append(entered, "second"); return nil }) }()
		untilWaiters(t, client, key, 1)
		entered = append(entered, "first")
		return nil
	})
	if err = errors.Join(err, <-second); err != nil || len(entered) != 2 || entered[0] != "first" {
		t.Fatal(entered, err)
	}
	// One that waits in vain is told.
	err = with(time.Minute, func() error {
		return with(20*time.Millisecond, func() error { t.Fatal("two have the lock"); return nil })
	})
	if !errors.Is(err, redislock.ErrNotAcquired) {
		t.Fatal(err)
	}
	// What the body says comes back, and the lock is given back.
	if err := with(time.Minute, func() error { return failure }); err != failure && !errors.Is(err, failure) {
		t.Fatal(err)
	}
	// A lost lock does not go unnoticed, and does not hide what went wrong in the body.
	if err := with(time.Minute, lose); !errors.Is(err, redislock.ErrLost) {
		t.Fatal(err)
	}
	if err := with(time.Minute, func() error { return errors.Join(lose(), failure) }); !errors.Is(err, failure) {
		t.Fatal(err)
	}
}

func TestASessionEndsWithItsConnection(t *testing.T) {
	other := connect(t, 3)
	options := *other.Options()
	options.PushNotificationProcessor = nil // each client has its own
	options.MaxRetries = -1                 // a connection that is made anew would go unnoticed
	client := redis.NewClient(&options)
	defer client.Close()
	session, key := client.Conn(), uuid.NewString()
	defer session.Close()

	fence, _ := acquire(t, session, key, "alice", "ONCE", "SESSION")
	if again, holds := acquire(t, session, key, "alice", "ONCE", "SESSION"); again != fence || holds != 1 {
		t.Fatal(again, fence, holds)
	}
	id, err := session.ClientID(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, other.Do(ctx, "CLIENT", "KILL", "ID", id), 1)
	for end := time.Now().Add(30 * time.Second); other.Do(ctx, "LOCK.INFO", key).Err() != redis.Nil; {
		if time.Now().After(end) {
			t.Fatal("the session does not end")
		}
	}
	if err := session.Ping(ctx).Err(); err == nil {
		t.Fatal("nobody was told")
	}
}

func TestAWaitWithoutAnAnswerBlamesNobody(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), ReadTimeout: time.Second})
	defer client.Close()
	locks := redislock.New(client)
	defer locks.Close()
	_, err = locks.Acquire(ctx, t.Name(), redislock.Wait(300*time.Millisecond))
	if !errors.Is(err, redislock.ErrNotAcquired) || !strings.Contains(err.Error(), "no answer") {
		t.Fatal(err)
	}
}
