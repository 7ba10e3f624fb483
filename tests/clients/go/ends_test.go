// What becomes of locks when their client, the locks themselves, or a lock around them ends.
package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"redislock.test/redislock"
)

func within(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("not within a minute")
	}
}

func TestWithTheClientOrTheLocksAllEnds(t *testing.T) {
	single, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := redis.ParseClusterURL(os.Getenv("CLUSTER_URL"))
	if err != nil {
		t.Fatal(err)
	}
	replicas := *cluster
	replicas.RouteByLatency = true
	ring := &redis.RingOptions{Addrs: map[string]string{"one": single.Addr}} // the package uses this client itself
	makers := map[string]func() redis.UniversalClient{
		"Client":                                 func() redis.UniversalClient { return redis.NewClient(single) },
		"ClusterClient":                          func() redis.UniversalClient { return redis.NewClusterClient(cluster) },
		"ClusterClient that reads from replicas": func() redis.UniversalClient { return redis.NewClusterClient(&replicas) },
		"Ring":                                   func() redis.UniversalClient { return redis.NewRing(ring) },
	}
	for name, open := range makers {
		for what, lost := range map[string]bool{" is closed": true, "'s locks are closed": false} {
			t.Run(name+what, func(t *testing.T) {
				before := runtime.NumGoroutine()
				client, other, free, taken := open(), open(), uuid.NewString(), uuid.NewString()
				defer other.Close()
				defer client.Close()
				acquire(t, other, taken, "other")
				locks := redislock.New(client)
				defer locks.Close()
				held, err := locks.Acquire(ctx, free)
				if err != nil {
					t.Fatal(err)
				}
				waits := make(chan error, 1)
				go func() { _, err := locks.Acquire(ctx, taken); waits <- err }()
				until(t, "it waits", func() bool { return waiters(other, taken) == int64(1) })
				if lost {
					client.Close()
				} else {
					locks.Close()
				}
				closed := func(err error) {
					t.Helper()
					if !errors.Is(err, redislock.ErrClosed) || errors.Is(err, redis.ErrClosed) != lost {
						t.Fatal(err)
					}
				}
				within(t, held.Context().Done())
				for _, told := range []error{context.Cause(held.Context()), held.Err(), held.Release(ctx)} {
					if errors.Is(told, redislock.ErrLost) != lost || errors.Is(told, redis.ErrClosed) != lost {
						t.Fatal(told)
					}
				}
				all(t, 1, func(int) error { closed(<-waits); return nil })
				_, err = locks.Acquire(ctx, free)
				closed(err)
				if lost {
					_, err = redislock.New(client).Acquire(ctx, free)
					closed(err)
				}
				if name != "Ring" || !lost { // otherwise the release can't be sent
					untilFree(t, other, free)
					until(t, "its place is given up", func() bool { return waiters(other, taken) == int64(0) })
				}
				until(t, "no subscription is left", func() bool {
					for _, kind := range []string{"CHANNELS", "SHARDCHANNELS"} {
						if channels, err := other.Do(ctx, "PUBSUB", kind, "redislock:*").Slice(); err != nil || len(channels) > 0 {
							return false
						}
					}
					return true
				})
				client.Close()
				other.Close()
				until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
			})
		}
	}
}

// If a client is closed while it connects, go-redis leaves the new connection open.
func TestAClientMayBeClosedAtAnyMoment(t *testing.T) {
	for range 200 {
		options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(options)
		locks, started, ended := open(t, client), make(chan struct{}), make(chan error, 1)
		go func() {
			close(started)
			for {
				held, err := locks.Acquire(ctx, t.Name())
				if err == nil {
					err = held.Release(ctx)
				}
				if err != nil {
					ended <- err
					return
				}
			}
		}()
		<-started
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		client.Close()
		all(t, 1, func(int) error {
			if err := <-ended; !errors.Is(err, redis.ErrClosed) {
				return errors.Join(errors.New("another end"), err)
			}
			return nil
		})
	}
}

func TestALostLockEndsTheWorkInsideButNotTheReleaseThere(t *testing.T) {
	client, key, inside := connect(t, 3), uuid.NewString(), uuid.NewString()
	locks := open(t, client)
	outer, err := locks.Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := locks.Acquire(outer.Context(), inside)
	if err != nil {
		t.Fatal(err)
	}
	client.Do(ctx, "LOCK.BREAK", key)
	within(t, inner.Context().Done())
	if cause := context.Cause(inner.Context()); cause != outer.Err() || !errors.Is(cause, redislock.ErrLost) || inner.Err() != nil {
		t.Fatal(cause, inner.Err())
	}
	if err := inner.Release(inner.Context()); err != nil {
		t.Fatal(err)
	}
	if err := outer.Release(ctx); !errors.Is(err, redislock.ErrLost) {
		t.Fatal(err)
	}
	untilFree(t, client, inside)
}
