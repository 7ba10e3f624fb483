package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// ErrLockLost says that the lock is free, or someone else holds it. Nothing was written.
var ErrLockLost = errors.New("the lock is lost")

// Write runs the commands that add adds, all or none, if the grant with that fence still holds the lock.
func Write(
	ctx context.Context, client redis.UniversalClient, key string, fence int64, add func(redis.Pipeliner) error,
) error {
	write := func(tx *redis.Tx) error { // has a connection of the pool to itself
		info := redis.NewMapStringInterfaceCmd(ctx, "LOCK.INFO", key)
		if err := tx.Process(ctx, info); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		if info.Val()["fence"] != fence {
			return ErrLockLost
		}
		_, err := tx.TxPipelined(ctx, add)
		return err
	}
	for {
		err := client.Watch(ctx, write, key)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
		// The lock has been extended, or has ended: look again.
	}
}
