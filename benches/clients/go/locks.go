package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	locks "redislock.test/redislock"
)

const lease = 30 * time.Second

var ctx = context.Background()

// A client of its own, and its lock, used as the library's users would use it.
type lock struct {
	acquire, release func()
	// rest is what a client does after it has released the lock, before it asks again.
	rest func()
}

var kinds = map[string]func(address, key string) lock{
	"redislock": func(address, key string) lock { return redislock(address, key) },
	"package":   withPackage,
	"session":   func(address, key string) lock { return redislock(address, key, "SESSION") },
	"redsync":   withRedsync,
	"postgres":  withPostgres,
	"etcd":      withEtcd,
}

func goRedis(address string) *redis.Client {
	// The client has one connection, and a wait has no time limit.
	return redis.NewClient(&redis.Options{Addr: address, PoolSize: 1, ReadTimeout: -1})
}

func redislock(address, key string, words ...any) lock {
	client := goRedis(address)
	check(client.Ping(ctx).Err())
	var owner string
	var fence any
	return lock{
		acquire: func() {
			owner = uuid.NewString()
			command := []any{"LOCK.ACQUIRE", key, "OWNER", owner, "PX", lease.Milliseconds(), "BLOCK", 0, "ONCE"}
			grant, err := client.Do(ctx, append(command, words...)...).Slice()
			check(err)
			fence = grant[1]
		},
		release: func() { check(client.Do(ctx, "LOCK.RELEASE", key, owner, "FENCE", fence).Err()) },
		rest:    func() {},
	}
}

// The functions return what the tasks of one program share, with the library's defaults; from this, each task gets its own lock.
var sharing = map[string]func(address string) func(key string) lock{
	"package": func(address string) func(key string) lock {
		ours := locks.New(redis.NewClient(&redis.Options{Addr: address}))
		return func(key string) lock { return ofPackage(ours, key) }
	},
	"redsync": func(address string) func(key string) lock {
		shared := redsync.New(goredis.NewPool(redis.NewClient(&redis.Options{Addr: address})))
		return func(key string) lock { return ofRedsync(shared, key) }
	},
}

func withPackage(address, key string) lock {
	// Several addresses are the nodes of a cluster.
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(address, ",")})
	return ofPackage(locks.New(client), key)
}

func ofPackage(ours *locks.Locks, key string) lock {
	var held *locks.Held
	return lock{
		acquire: func() {
			var err error
			held, err = ours.Acquire(ctx, key, locks.Lease(lease))
			check(err)
		},
		release: func() { check(held.Release(ctx)) },
		rest:    func() {},
	}
}

func withRedsync(address, key string) lock {
	client := goRedis(address)
	check(client.Ping(ctx).Err())
	return ofRedsync(redsync.New(goredis.NewPool(client)), key)
}

func ofRedsync(shared *redsync.Redsync, key string) lock {
	// By default, redsync gives up after 32 tries; here it tries until it has the lock.
	mutex := shared.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt32))
	return lock{
		acquire: func() { check(mutex.Lock()) },
		release: func() {
			ok, err := mutex.Unlock()
			check(err)
			if !ok {
				check(errors.New("redsync has lost the lock"))
			}
		},
		// A client that asked again at once would nearly always get the lock again, so it first waits as long as the others do.
		rest: func() { time.Sleep(50*time.Millisecond + rand.N(200*time.Millisecond)) },
	}
}

func withPostgres(address, key string) lock {
	connection, err := pgx.Connect(ctx, "postgres://postgres@"+address+"/postgres?sslmode=disable")
	check(err)
	ask := func(function string) func() {
		return func() {
			_, err := connection.Exec(ctx, "SELECT "+function+"(hashtextextended($1, 0))", key)
			check(err)
		}
	}
	return lock{acquire: ask("pg_advisory_lock"), release: ask("pg_advisory_unlock"), rest: func() {}}
}

func withEtcd(address, key string) lock {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
	check(err)
	session, err := concurrency.NewSession(client) // its lease: 60 s, renewed by the client
	check(err)
	mutex := concurrency.NewMutex(session, key)
	return lock{
		acquire: func() { check(mutex.Lock(ctx)) },
		release: func() { check(mutex.Unlock(ctx)) },
		rest:    func() {},
	}
}
