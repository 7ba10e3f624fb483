package gocron

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"
	"redislock.test/redislock"
)

// process makes locks with their own client, as each process has in production.
func process(t *testing.T) (*redislock.Locks, *redis.Client) {
	t.Helper()
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	locks := redislock.New(client)
	t.Cleanup(func() { locks.Close(); client.Close() })
	return locks, client
}

func schedule(t *testing.T, job func(), option gocron.SchedulerOption) {
	t.Helper()
	scheduler, err := gocron.NewScheduler(option)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(job), gocron.WithName(t.Name())); err != nil {
		t.Fatal(err)
	}
	scheduler.Start()
	t.Cleanup(func() { scheduler.Shutdown() })
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain for: ", what)
		}
	}
}

func TestAJobRunsInOneSchedulerAtATime(t *testing.T) {
	var inside, most atomic.Int64
	var runs [3]atomic.Int64
	for number := range runs {
		locks, _ := process(t)
		schedule(t, func() {
			if now := inside.Add(1); now > most.Load() {
				most.Store(now)
			}
			time.Sleep(3 * time.Millisecond) // give the other processes time to start the job, too
			inside.Add(-1)
			runs[number].Add(1)
		}, gocron.WithDistributedLocker(NewLocker(locks)))
	}
	until(t, "30 runs", func() bool { return runs[0].Load()+runs[1].Load()+runs[2].Load() >= 30 })
	if most.Load() != 1 {
		t.Fatal(most.Load(), " ran at a time")
	}
}

func TestTheLeaderRunsTheJobsAndIsFollowed(t *testing.T) {
	var runs [2]atomic.Int64
	var electors [2]*Elector
	for number := range electors {
		locks, _ := process(t)
		electors[number] = NewElector(locks, t.Name())
		t.Cleanup(electors[number].Close)
		if number == 0 {
			until(t, "the first one leads", func() bool { return electors[0].IsLeader(context.Background()) == nil })
		}
		schedule(t, func() { runs[number].Add(1) }, gocron.WithDistributedElector(electors[number]))
	}
	until(t, "5 runs", func() bool { return runs[0].Load() >= 5 })
	if runs[1].Load() != 0 {
		t.Fatal("two lead")
	}
	electors[0].Close()
	if electors[0].IsLeader(context.Background()) == nil {
		t.Fatal("it leads, but is closed")
	}
	until(t, "the other one follows", func() bool { return runs[1].Load() >= 5 })
}

func TestALeaderWhoseLockIsBrokenStandsAgain(t *testing.T) {
	locks, client := process(t)
	elector := NewElector(locks, t.Name())
	defer elector.Close()
	ctx := context.Background()
	leads := func() bool { return elector.IsLeader(ctx) == nil }
	until(t, "it leads", leads)
	other, _ := process(t)
	next := make(chan error, 1)
	go func() {
		held, err := other.Acquire(ctx, t.Name())
		if err == nil {
			err = held.Release(ctx)
		}
		next <- err
	}()
	until(t, "the other one waits", func() bool {
		info := redis.NewMapStringInterfaceCmd(ctx, "LOCK.INFO", t.Name())
		client.Process(ctx, info)
		return info.Val()["waiters"] == int64(1)
	})
	if err := client.Do(ctx, "LOCK.BREAK", t.Name()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	until(t, "it leads again", leads)
}
