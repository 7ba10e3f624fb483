// Invoice does its work in one process at a time. A signal ends the wait, or the work, and gives the lock back.
package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"redislock.test/redislock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := send(ctx); err != nil {
		log.Fatal(err)
	}
}

func send(ctx context.Context) error {
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		return err
	}
	locks := redislock.New(redis.NewClient(options))
	defer locks.Close()
	held, err := locks.Acquire(ctx, "invoice:42", redislock.Wait(10*time.Second))
	if err != nil {
		return err
	}
	log.Print("held with fence ", held.Fence())
	// Here comes the work, with held.Context(), which also ends when the lock is lost.
	return held.Release(ctx)
}
