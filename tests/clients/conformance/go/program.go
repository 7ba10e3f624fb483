// The program of the conformance scenarios.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"redislock.test/redislock"
)

type command struct {
	Do, Task, Kind, Service string
	URLs                    []string
	Pool                    int
	Keys                    []string
	Wait, Lease             *int64
	MaxHold                 *int64 `json:"max_hold"`
	Shared, Detect, Session bool
	Renew                   *bool
	Observe                 bool
	Limit, Slot             *int
	Label, Owner            *string
	Sync                    []int64
}

type fields map[string]any

var writing sync.Mutex

func say(event, task string, more fields) {
	said := fields{"event": event}
	if task != "" {
		said["task"] = task
	}
	for name, value := range more {
		said[name] = value
	}
	writing.Lock()
	defer writing.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		log.Fatal(err)
	}
}

var events = []struct {
	err  error
	name string
}{
	{redislock.ErrNotAcquired, "not_acquired"}, {redislock.ErrLost, "lost"}, {redislock.ErrNotConfirmed, "not_confirmed"},
	{redislock.ErrNoModule, "no_module"}, {redislock.ErrTooOld, "too_old"}, {redislock.ErrInvalid, "refused"},
	{redislock.ErrClosed, "cancelled"}, {context.Canceled, "cancelled"},
}

func tell(task string, err error) {
	more := fields{"message": err.Error(), "reason": err.Error()}
	if deadlock := (*redislock.DeadlockError)(nil); errors.As(err, &deadlock) {
		more["cycle"] = deadlock.Cycle
		say("deadlock", task, more)
		return
	}
	for _, event := range events {
		if errors.Is(err, event.err) {
			say(event.name, task, more)
			return
		}
	}
	say("error", task, more)
}

func ms(number int64) time.Duration { return time.Duration(number) * time.Millisecond }

func options(c command) (all []redislock.Option) {
	add := func(wanted bool, option func() redislock.Option) {
		if wanted {
			all = append(all, option())
		}
	}
	add(c.Wait != nil, func() redislock.Option { return redislock.Wait(ms(*c.Wait)) })
	add(c.Lease != nil, func() redislock.Option { return redislock.Lease(ms(*c.Lease)) })
	add(c.MaxHold != nil, func() redislock.Option { return redislock.MaxHold(ms(*c.MaxHold)) })
	add(c.Shared, redislock.Shared)
	add(c.Detect, redislock.Detect)
	add(c.Session, redislock.Session)
	add(c.Renew != nil && !*c.Renew, redislock.NoRenewal)
	add(c.Limit != nil, func() redislock.Option { return redislock.Limit(*c.Limit) })
	add(c.Slot != nil, func() redislock.Option { return redislock.Slot(*c.Slot) })
	add(c.Label != nil, func() redislock.Option { return redislock.Label(*c.Label) })
	add(c.Owner != nil, func() redislock.Option { return redislock.Owner(*c.Owner) })
	add(c.Sync != nil, func() redislock.Option { return redislock.Sync(int(c.Sync[0]), ms(c.Sync[1])) })
	return all
}

func connect(c command) redis.UniversalClient {
	var addresses []string
	for _, url := range c.URLs {
		addresses = append(addresses, strings.TrimPrefix(url, "redis://"))
	}
	switch c.Kind {
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, PoolSize: c.Pool})
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: c.Service, SentinelAddrs: addresses, PoolSize: c.Pool})
	}
	return redis.NewClient(&redis.Options{Addr: addresses[0], PoolSize: c.Pool})
}

func observer() redislock.Observer {
	tells := func(name string) func(context.Context, redislock.Event) {
		return func(_ context.Context, e redislock.Event) {
			what := strings.TrimSpace(strings.Join([]string{name, strings.Join(e.Keys, ","), e.Mode, e.Outcome}, " "))
			say("observed", "", fields{"what": what, "ms": (e.Waited + e.Held).Milliseconds(), "reason": e.Reason})
		}
	}
	waiting := func(ctx context.Context, e redislock.Event) context.Context {
		tells("waiting")(ctx, e)
		return ctx
	}
	return redislock.Observer{Waiting: waiting, Acquired: tells("acquired"), Refused: tells("refused"), Released: tells("released"), Lost: tells("lost")}
}

type task struct {
	ctx     context.Context
	cancel  context.CancelFunc
	release chan struct{}
	mutex   sync.Mutex
	held    *redislock.Held
}

func (t *task) run(locks *redislock.Locks, c command) {
	held, err := locks.AcquireAll(t.ctx, c.Keys, options(c)...)
	if err != nil {
		tell(c.Task, err)
		return
	}
	t.mutex.Lock()
	t.held = held
	t.mutex.Unlock()
	var slot any
	if held.Slot() > 0 {
		slot = held.Slot()
	}
	say("acquired", c.Task, fields{"owner": held.Owner(), "fences": held.Fences(), "slot": slot})
	over := "released"
	select {
	case <-t.release:
	case <-held.Context().Done():
		if err := context.Cause(held.Context()); errors.Is(err, redislock.ErrLost) {
			tell(c.Task, err)
			return
		} else if errors.Is(err, context.Canceled) && t.ctx.Err() != nil {
			over = "cancelled"
		}
	}
	if err := held.Release(context.Background()); err != nil {
		tell(c.Task, err)
		return
	}
	say(over, c.Task, nil)
}

func main() {
	var client redis.UniversalClient
	var locks *redislock.Locks
	tasks := map[string]*task{}
	closeAll := func() {
		if locks != nil {
			_ = locks.Close()
			_ = client.Close()
		}
		locks, client = nil, nil
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			log.Fatal(err)
		}
		t := tasks[c.Task]
		switch c.Do {
		case "open":
			client = connect(c)
			var observers []redislock.Observer
			if c.Observe {
				observers = append(observers, observer())
			}
			locks = redislock.New(client, observers...)
			say("opened", "", nil)
		case "close":
			closeAll()
			say("closed", "", nil)
		case "acquire":
			t = &task{release: make(chan struct{})}
			t.ctx, t.cancel = context.WithCancel(context.Background())
			tasks[c.Task] = t
			go t.run(locks, c)
		case "release":
			close(t.release)
		case "cancel":
			t.cancel()
		case "extend":
			go func() {
				t.mutex.Lock()
				held := t.held
				t.mutex.Unlock()
				given, err := held.Extend(context.Background(), ms(*c.Lease))
				if err != nil {
					tell(c.Task, err)
					return
				}
				say("extended", c.Task, fields{"lease": given.Milliseconds()})
			}()
		default:
			log.Fatal("unknown: ", c.Do)
		}
	}
	closeAll()
}
