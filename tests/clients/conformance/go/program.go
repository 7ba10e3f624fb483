// The program of the conformance scenarios. core/core_test.go runs a copy inside the package, without a server.
package main

import (
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

type message struct {
	Do, Task, Kind, Service string
	At, Command             int64 // for the core alone, and these
	Message                 string
	Reply                   any
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

func ms(number int64) time.Duration { return time.Duration(number) * time.Millisecond }

func options(c message) (all []redislock.Option) {
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

var outcomes = []struct {
	err  error
	name string
}{
	{redislock.ErrNotAcquired, "not acquired"}, {redislock.ErrClosed, "closed"}, {redislock.ErrLost, "lost"},
	{context.Canceled, "cancelled"}, {redislock.ErrDeadlock, "deadlock"}, {redislock.ErrNotConfirmed, "not confirmed"},
	{redislock.ErrNoModule, "no module"}, {redislock.ErrTooOld, "too old"},
}

func outcome(err error) string {
	for _, each := range outcomes {
		if errors.Is(err, each.err) {
			return each.name
		}
	}
	return "error"
}

type fields map[string]any

var writing sync.Mutex

func say(event, task string, more fields) {
	said := fields{"event": event, "at": at()}
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

func tell(what, task string, err error) {
	more := fields{"what": what, "message": err.Error(), "reason": err.Error()}
	if deadlock := (*redislock.DeadlockError)(nil); errors.As(err, &deadlock) {
		more["cycle"] = deadlock.Cycle
	}
	name := strings.ReplaceAll(outcome(err), " ", "_")
	if errors.Is(err, redislock.ErrInvalid) {
		name = "refused"
	}
	say(name, task, more)
}

// The core replaces these.
var (
	at      = func() any { return nil }
	connect = dial
	obey    = (*program).obey
	end     = (*program).close
	others  = func(c message) { log.Fatal("unknown: ", c.Do) }
)

func dial(c message) redis.UniversalClient {
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
	name   string
	cancel context.CancelFunc
	mutex  sync.Mutex
	held   *redislock.Held
	parted bool
}

func (t *task) acquire(ctx context.Context, locks *redislock.Locks, c message) {
	held, err := locks.AcquireAll(ctx, c.Keys, options(c)...)
	if err != nil {
		tell("refused", t.name, err)
		return
	}
	t.mutex.Lock()
	t.held = held
	t.mutex.Unlock()
	var slot any
	if held.Slot() > 0 {
		slot = held.Slot()
	}
	say("acquired", t.name, fields{"owner": held.Owner(), "fences": held.Fences(), "slot": slot})
	<-held.Context().Done()
	t.mutex.Lock()
	parted := t.parted
	t.mutex.Unlock()
	if err := context.Cause(held.Context()); held.Err() != nil || !parted && errors.Is(err, redislock.ErrClosed) {
		tell("lost", t.name, err)
		_ = held.Release(context.Background())
	}
}

// holds returns what the task holds, or nil.
func (t *task) holds(parts bool) *redislock.Held {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.parted = t.parted || parts
	return t.held
}

func (t *task) release(event string) {
	if err := t.holds(true).Release(context.Background()); err != nil {
		tell("not released", t.name, err)
	} else {
		say(event, t.name, nil)
	}
}

func (t *task) extend(lease *int64) {
	wanted := time.Duration(0)
	if lease != nil {
		wanted = ms(*lease)
	}
	if given, err := t.holds(false).Extend(context.Background(), wanted); err != nil {
		tell("not extended", t.name, err)
	} else {
		say("extended", t.name, fields{"lease": given.Milliseconds()})
	}
}

type program struct {
	client redis.UniversalClient
	locks  *redislock.Locks
	tasks  map[string]*task
}

func (p *program) close() {
	if p.locks != nil {
		_ = p.locks.Close()
		_ = p.client.Close()
	}
}

func (p *program) obey(c message) {
	t := p.tasks[c.Task]
	switch c.Do {
	case "open":
		var observers []redislock.Observer
		if c.Observe {
			observers = append(observers, observer())
		}
		p.client = connect(c)
		p.locks, p.tasks = redislock.New(p.client, observers...), map[string]*task{}
		say("opened", "", nil)
	case "close":
		p.close()
		say("closed", "", nil)
	case "acquire":
		t = &task{name: c.Task}
		p.tasks[c.Task] = t
		ctx, cancel := context.WithCancel(context.Background())
		t.cancel = cancel
		go t.acquire(ctx, p.locks, c)
	case "release":
		go t.release("released")
	case "cancel":
		if t.holds(false) != nil {
			go t.release("cancelled")
		} else {
			t.cancel()
		}
	case "extend":
		go t.extend(c.Lease)
	case "check":
		_ = t.held.Err()
	default:
		others(c)
	}
}

func main() {
	p := program{}
	lines := json.NewDecoder(os.Stdin)
	for {
		c := message{}
		if err := lines.Decode(&c); err != nil {
			break
		}
		obey(&p, c)
	}
	end(&p)
}
