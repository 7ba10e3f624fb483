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

	"github.com/redis/go-redis/v9"
	"redislock.test/redislock"
)

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

func tell(task string, err error) {
	more := fields{"message": err.Error(), "reason": err.Error()}
	if deadlock := (*redislock.DeadlockError)(nil); errors.As(err, &deadlock) {
		more["cycle"] = deadlock.Cycle
	}
	name := strings.ReplaceAll(outcome(err), " ", "_")
	if errors.Is(err, redislock.ErrInvalid) {
		name = "refused"
	} else if name == "closed" {
		name = "cancelled"
	}
	say(name, task, more)
}

func connect(c message) redis.UniversalClient {
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

func (t *task) run(locks *redislock.Locks, c message) {
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
		var c message
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
