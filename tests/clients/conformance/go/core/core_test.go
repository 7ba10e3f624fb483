// The core of the package without a server: its clock and its connections do as ../../driver/traces.py says. testing/synctest tells when all
// goroutines wait.
package redislock

import (
	"bufio"
	"context"
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

// server stands in for the client: commands wait for the trace's answers, and the subscription is confirmed when the trace says so.
type server struct {
	redis.UniversalClient
	mutex   sync.Mutex
	sent    []chan any
	ready   bool
	channel string
	end     net.Conn // the subscription's connection
}

func (s *server) Close() error { return nil }

func (s *server) Process(_ context.Context, cmd redis.Cmder) error { return s.process(cmd, false) }

func (s *server) process(cmd redis.Cmder, session bool) error {
	s.mutex.Lock()
	answered := make(chan any)
	s.sent = append(s.sent, answered)
	number := len(s.sent)
	s.mutex.Unlock()
	say("sent", "", fields{"command": number, "words": strings.Trim(fmt.Sprint(cmd.Args()), "[]"), "session": session})
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
	case float64:
		return int64(reply)
	case []any:
		for at := range reply {
			reply[at] = plain(reply[at])
		}
	}
	return reply
}

// sessions is the client for commands of sessions.
type sessions struct{ *server }

func (s sessions) Process(_ context.Context, cmd redis.Cmder) error { return s.process(cmd, true) }

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

// A watched task reports its owner and its lease.
type watched struct {
	request  *request
	believes int64 // ms until which it was last reported as held; -1: for ever
}

var watches = map[*task]*watched{}

// watch is an option of each acquire: ../replay adds it.
func (t *task) watch(r *request) { watches[t] = &watched{request: r} }

func (p *program) believed() {
	for name, t := range p.tasks {
		w, h, until, told := watches[t], t.holds(false), int64(0), any(nil)
		if h == nil {
			continue
		}
		h.locks.mutex.Lock()
		holds := h.state == held
		if until = h.until.Sub(time.Begin).Milliseconds(); until > 1<<40 {
			until = -1
		} else {
			told = until
		}
		h.locks.mutex.Unlock()
		if !holds {
			w.believes = 0
		} else if until != w.believes {
			w.believes = until
			say("believes", name, fields{"until": told})
		}
	}
}

func (p *program) step(c message) {
	time.Set(c.At)
	go p.obey(c)
	synctest.Wait()
	if c.Do == "open" {
		p.locks.sessions = sessions{p.client.(*server)}
	}
	for time.Fire() {
		synctest.Wait()
	}
	if c.Do == "acquire" {
		say("owner", c.Task, fields{"owner": watches[p.tasks[c.Task]].request.owner})
	}
	p.believed()
	next := any(nil)
	if at := time.Next(); at > 0 {
		next = at
	}
	say("next", "", fields{"until": next})
}

func TestCore(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var s *server
		at = func() any { return time.Since(time.Begin).Milliseconds() }
		connect = func(message) redis.UniversalClient {
			time.Forget()
			s = &server{}
			return s
		}
		others = func(c message) {
			switch c.Do {
			case "subscribed":
				s.subscribed()
			case "heard":
				_, _ = fmt.Fprintf(s.end, "*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(s.channel), s.channel, len(c.Message), c.Message)
			case "answer":
				s.sent[c.Command-1] <- c.Reply
			}
		}
		obey = (*program).step
		end = func(*program) { os.Exit(0) } // ends goroutines that would never return
		main()
	})
}
