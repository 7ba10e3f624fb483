// Replays traces with the core of the package, without a server. ../../driver/traces.py sets the clock, and describes the lines.
// testing/synctest tells when all goroutines wait.
package redislock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
	time "redislock.test/redislock/clock"
)

// said is an error message of the server.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

func now() int64 { return time.Since(time.Begin).Milliseconds() }

// server stands in for the client: commands wait for the trace's answers, and the subscription is confirmed when the trace says so.
type server struct {
	redis.UniversalClient
	mutex   sync.Mutex
	sent    []chan any
	lines   [][]any
	ready   bool
	channel string
	end     net.Conn // the subscription's connection
}

func (s *server) tell(what string, more ...any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lines = append(s.lines, append([]any{now(), what}, more...))
}

func (s *server) Process(_ context.Context, cmd redis.Cmder) error { return s.process(cmd) }

func (s *server) process(cmd redis.Cmder, session ...any) error {
	s.mutex.Lock()
	answered := make(chan any)
	s.sent = append(s.sent, answered)
	number := len(s.sent)
	s.mutex.Unlock()
	s.tell("send", append([]any{number, strings.Trim(fmt.Sprint(cmd.Args()), "[]")}, session...)...)
	err := error(nil)
	switch reply := (<-answered).(type) {
	case nil:
		err = redis.Nil
	case map[string]any:
		if text, ok := reply["error"].(string); ok {
			err = said(text)
		} else if err = io.EOF; reply["no answer"] == "silence" {
			err = os.ErrDeadlineExceeded
		}
	default:
		cmd.(interface{ SetVal(any) }).SetVal(plain(reply))
	}
	cmd.SetErr(err)
	return err
}

func plain(reply any) any {
	switch reply := reply.(type) {
	case json.Number:
		number, _ := reply.Int64()
		return number
	case []any:
		for at := range reply {
			reply[at] = plain(reply[at])
		}
	}
	return reply
}

// sessions is the client for commands of sessions.
type sessions struct{ *server }

func (s sessions) Process(_ context.Context, cmd redis.Cmder) error { return s.process(cmd, "session") }

func (s *server) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	client := redis.NewClient(&redis.Options{Protocol: 2, DisableIdentity: true, Dialer: func(context.Context, string, string) (net.Conn, error) {
		mine, its := net.Pipe()
		go s.serve(mine)
		return its, ctx.Err()
	}})
	return client.Subscribe(ctx, channels...)
}

func (s *server) serve(end net.Conn) {
	words := bufio.NewScanner(end)
	for words.Scan() {
		switch strings.ToLower(words.Text()) {
		case "hello":
			_, _ = io.WriteString(end, "-ERR unknown command\r\n")
		case "subscribe":
			words.Scan()
			words.Scan()
			s.mutex.Lock()
			s.channel, s.end = words.Text(), end
			ready := s.ready
			s.mutex.Unlock()
			if ready {
				s.subscribed()
			}
		}
	}
}

func (s *server) subscribed() {
	if s.ready = true; s.end != nil {
		_, _ = fmt.Fprintf(s.end, "*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(s.channel), s.channel)
	}
}

type acquire struct {
	request  *request
	held     *Held
	cancel   context.CancelFunc
	released bool
	believes int64 // ms until which it was last reported as held; -1: for ever
}

type bench struct {
	*server
	locks    *Locks
	acquires []*acquire
}

func newBench() *bench {
	time.Forget()
	s := &server{}
	b := &bench{server: s, locks: New(s)}
	b.locks.sessions = sessions{s}
	return b
}

func (b *bench) acquire(wanted any) {
	a, number, m := &acquire{}, len(b.acquires)+1, message{}
	b.acquires = append(b.acquires, a)
	if text, err := json.Marshal(wanted); err != nil || json.Unmarshal(text, &m) != nil {
		panic(wanted)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	h, err := b.locks.AcquireAll(ctx, m.Keys, append(options(m), func(r *request) { a.request = r })...)
	if err != nil {
		b.tell("refused", number, outcome(err))
		return
	}
	var slot any
	if h.Slot() > 0 {
		slot = h.Slot()
	}
	b.tell("acquired", number, h.Fences(), slot)
	a.held = h
	<-h.Context().Done()
	if err := context.Cause(h.Context()); h.Err() != nil || !a.released && errors.Is(err, ErrClosed) {
		b.tell("lost", number, outcome(err))
		_ = h.Release(context.Background())
	}
}

// call does one thing that the trace tells. It returns, or blocks, before the clock moves on.
func (b *bench) call(what string, given []any) {
	var number int64
	var a *acquire
	if len(given) > 0 {
		if number, _ = plain(given[0]).(int64); number > 0 && what != "answer" {
			a = b.acquires[number-1]
		}
	}
	asked := func(yes, no string, err error, more ...any) {
		if err != nil {
			b.tell(no, number, outcome(err))
		} else {
			b.tell(yes, append([]any{number}, more...)...)
		}
	}
	switch what {
	case "subscribed":
		b.subscribed()
	case "heard":
		message := given[0].(string)
		_, _ = fmt.Fprintf(b.end, "*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(b.channel), b.channel, len(message), message)
	case "answer":
		b.sent[number-1] <- given[1]
	case "acquire":
		b.acquire(given[0])
	case "extend":
		lease := time.Duration(0)
		if given[1] != nil {
			lease = ms(plain(given[1]).(int64))
		}
		left, err := a.held.Extend(context.Background(), lease)
		asked("extended", "not extended", err, left.Milliseconds())
	case "check":
		_ = a.held.Err()
	case "release":
		a.released = true
		asked("released", "not released", a.held.Release(context.Background()))
	case "cancel":
		a.cancel()
	case "close":
		_ = b.locks.Close()
	case "time":
	default:
		panic(what)
	}
}

// believed reports the leases that have changed.
func (b *bench) believed() {
	b.locks.mutex.Lock()
	defer b.locks.mutex.Unlock()
	all := map[*request]*Held{}
	for _, h := range b.locks.all() {
		if h.state == held {
			all[h.request] = h
		}
	}
	for at, a := range b.acquires {
		h := all[a.request]
		if h == nil {
			a.believes = 0
			continue
		}
		until, told := h.until.Sub(time.Begin).Milliseconds(), any(nil)
		if until > 1<<40 {
			until = -1
		} else {
			told = until
		}
		if until != a.believes {
			a.believes = until
			b.tell("believes", at+1, told)
		}
	}
}

func (b *bench) step(out io.Writer, line []any) {
	ms, _ := plain(line[0]).(int64)
	time.Set(ms)
	go b.call(line[1].(string), line[2:])
	for first := true; first || time.Fire(); first = false {
		synctest.Wait()
	}
	b.believed()
	say := json.NewEncoder(out)
	if line[1] == "acquire" {
		number := len(b.acquires)
		_ = say.Encode([]any{ms, "owner", number, b.acquires[number-1].request.owner})
	}
	for _, each := range b.lines {
		_ = say.Encode(each)
	}
	b.lines = nil
	next := any(nil)
	if at := time.Next(); at > 0 {
		next = at
	}
	_ = say.Encode([]any{"next", next})
}

func TestReplay(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		lines, out := json.NewDecoder(os.Stdin), bufio.NewWriter(os.Stdout)
		lines.UseNumber()
		var b *bench
		for {
			var line []any
			if err := lines.Decode(&line); err != nil {
				os.Exit(0) // ends goroutines that would never return
			}
			if line[0] == "new" {
				b = newBench()
			} else {
				b.step(out, line)
			}
			_ = out.Flush()
		}
	})
}
