package redislock

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// answer is the result of a command.
type answer struct {
	reply any
	err   error
}

// job is a command that a worker is to send.
type job struct {
	cmd    *redis.Cmd
	coming chan<- answer
}

// start sends a command without blocking. An acquire names the channel of a subscription, and uses the session's connection if there is
// one. words is called with the mutex, and returns nil if nothing has to be sent any more.
func (l *Locks) start(h *Held, words func(channel string) []any, asks bool) <-chan answer {
	coming, r := make(chan answer, 1), h.request
	session := asks && r.session
	if l.queue(r, words, session, coming) {
		return coming
	}
	go func() {
		answered := answer{err: redis.Nil}
		channel := ""
		if asks {
			var err error
			if channel, err = l.notified(h); err != nil {
				coming <- answer{err: err}
				return
			}
		}
		l.mutex.Lock()
		words := words(channel)
		l.mutex.Unlock()
		if words != nil {
			answered.reply, answered.err = l.send(words, session)
		}
		coming <- answered
	}()
	return coming
}

// ask sends a command, and waits for the answer. If no other goroutine does so now, this one sends it itself: waking a worker takes time.
func (l *Locks) ask(r *request, words []any) (any, error) {
	if l.single && l.asking.CompareAndSwap(false, true) {
		defer l.asking.Store(false)
		return l.send(words, false)
	}
	coming := make(chan answer, 1)
	if l.queue(r, func(string) []any { return words }, false, coming) {
		answered := <-coming
		return answered.reply, answered.err
	}
	return l.send(words, false)
}

// queue leaves a command to the workers, which send waiting commands together. So the command must be for a single server, and must not
// block the others. It returns false if no workers run.
func (l *Locks) queue(r *request, words func(channel string) []any, session bool, coming chan<- answer) bool {
	if !l.single || session || r.sync != nil {
		return false
	}
	l.mutex.Lock()
	working := l.working && l.closed == nil
	if working {
		l.jobs = append(l.jobs, job{command(words(l.channel)), coming})
	}
	l.mutex.Unlock()
	if working {
		select {
		case l.more <- struct{}{}:
		default: // enough workers have been woken
		}
	}
	return working
}

func (l *Locks) work() {
	for open := true; open; {
		select {
		case <-l.more:
		case <-l.done:
			open = false
		}
		l.mutex.Lock()
		jobs := l.jobs
		l.jobs = nil
		l.mutex.Unlock()
		if len(jobs) == 1 {
			_ = l.commands.Process(context.Background(), jobs[0].cmd)
		} else if len(jobs) > 1 {
			together := l.commands.Pipeline()
			for _, j := range jobs {
				_ = together.Process(context.Background(), j.cmd)
			}
			_, _ = together.Exec(context.Background())
		}
		for _, j := range jobs {
			reply, err := l.answered(j.cmd)
			j.coming <- answer{reply, err}
		}
	}
}

// final is a command that go-redis does not retry by itself. A second release would get NOTHELD; null for a second acquire of several locks
// would not mean that the first one holds none.
type final struct{ *redis.Cmd }

func (final) NoRetry() bool { return true }

func (l *Locks) send(words []any, session bool) (any, error) {
	cmd, client := command(words), l.commands
	if session {
		client = l.sessions
	}
	if strings.HasSuffix(words[0].(string), "RELEASE") || words[0] == "LOCK.MACQUIRE" {
		_ = client.Process(context.Background(), final{cmd})
	} else {
		_ = client.Process(context.Background(), cmd)
	}
	return l.answered(cmd)
}

func command(words []any) *redis.Cmd {
	cmd := redis.NewCmd(context.Background(), words...)
	if _, several := words[1].(int); several {
		cmd.SetFirstKeyPos(2)
	}
	return cmd
}

func (l *Locks) answered(cmd *redis.Cmd) (any, error) {
	reply, err := cmd.Result()
	if l.single && redis.HasErrorPrefix(err, "MOVED") {
		err = fmt.Errorf("%w: %w", errNode, err)
	} else if l.cluster != nil && passes(err) {
		l.cluster.ReloadState(context.Background()) // by itself, go-redis does so only after a redirect or a minute
	}
	return reply, err
}
