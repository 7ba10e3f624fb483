// A lock around a function, by the package, as the tests take it.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"redislock.test/redislock"
)

type Locks struct {
	client redis.UniversalClient
	locks  *redislock.Locks
	wait   time.Duration
}

func (l *Locks) With(ctx context.Context, key string, lease time.Duration, body func(fence int64) error, options ...redislock.Option) error {
	options = append([]redislock.Option{redislock.Lease(lease), redislock.Wait(l.wait)}, options...)
	held, err := l.locks.Acquire(ctx, key, options...)
	if err != nil {
		return err
	}
	err = body(held.Fence())
	return errors.Join(err, held.Release(ctx))
}
