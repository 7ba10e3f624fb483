package redislock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// subscribed makes the process's one subscription at the first call, and waits until it is confirmed.
func (l *Locks) subscribed() error {
	l.starting <- struct{}{}
	defer func() { <-l.starting }()
	if l.pubsub != nil {
		return nil
	}
	if time.Since(l.failed) < tryAgain { // others waited for the same attempt, and share its failure
		return l.failure
	}
	pubsub, err := l.subscribe(context.Background())
	if err == nil {
		if _, err = pubsub.ReceiveTimeout(context.Background(), silence); err == nil {
			err = l.clientClosed()
		}
		if err != nil {
			_ = pubsub.Close()
		}
	}
	if err != nil {
		if l.endsWith(err) {
			err = errClient
		}
		l.failed, l.failure = time.Now(), err
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed != nil {
		_ = pubsub.Close()
		return l.closed
	}
	l.pubsub, l.working = pubsub, true
	for range commands {
		go l.work()
	}
	l.running.Go(l.listen)
	return nil
}

// subscribe returns an error where a Ring would panic: it was closed, or its servers can't be reached.
func (l *Locks) subscribe(ctx context.Context) (pubsub *redis.PubSub, err error) {
	defer func() {
		if failed, ok := recover().(error); ok {
			err = failed
		}
	}()
	return l.client.Subscribe(ctx, l.channel), nil
}

// clientClosed returns an error if the user's client was closed. If it was closed while it connected, the connection stays open.
func (l *Locks) clientClosed() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a cancelled context keeps it from connecting
	pubsub, err := l.subscribe(ctx)
	if err == nil {
		_, err = pubsub.Receive(ctx)
		_ = pubsub.Close()
	}
	if errors.Is(err, redis.ErrClosed) {
		return err
	}
	return nil
}

func (l *Locks) listen() {
	ctx, pubsub, silent, pause := context.Background(), l.pubsub, false, time.Duration(0)
	defer func() { _ = pubsub.Close() }()
	for {
		message, err := pubsub.ReceiveTimeout(ctx, silence)
		select {
		case <-l.done:
			return
		default:
		}
		switch message := message.(type) {
		case *redis.Subscription: // subscribed anew, so messages may have been lost
			if l.endsWith(l.clientClosed()) {
				return
			}
			l.mutex.Lock()
			l.claims = false // the new server may know START
			for _, h := range l.all() {
				l.doubt(h)
			}
			l.mutex.Unlock()
		case *redis.Message:
			l.hear(message.Payload)
		}
		if err == nil {
			silent, pause = false, 0
			continue
		}
		if timeout, ok := err.(interface{ Timeout() bool }); ok && timeout.Timeout() && !silent {
			silent = true
			if pubsub.Ping(ctx) == nil {
				continue
			}
		}
		_ = pubsub.Close()
		for err != nil {
			if l.endsWith(err) {
				return
			}
			select {
			case <-l.done:
				return
			case <-time.After(pause):
			}
			silent, pause = false, min(time.Second, pause+tryAgain)
			var anew *redis.PubSub
			if anew, err = l.subscribe(ctx); err == nil {
				pubsub = anew
			}
		}
		l.starting <- struct{}{}
		l.pubsub = pubsub
		<-l.starting
	}
}

// hear reads a message. The owner comes last in the message, because it may contain spaces.
func (l *Locks) hear(message string) {
	word, owner, _ := strings.Cut(message, " ")
	var numbers [4]int64
	for at := range numbersOf[word] {
		var number string
		number, owner, _ = strings.Cut(owner, " ")
		numbers[at], _ = strconv.ParseInt(number, 10, 64)
	}
	fence := numbers[0]
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, h := range slices.Clone(l.entries[owner]) {
		switch {
		case word == "lost" && h.state == held && slices.Contains(h.fences, fence):
			l.lose(h, errTold)
		case word == "lost" && h.state == waiting: // the answer with this fence may come later
			h.heardLost = append(h.heardLost, fence)
		case word == "start" && h.state == waiting && numbers[3] == h.asks: // another number answers an earlier acquire
			h.told = &told{fence: fence, lasts: time.Duration(numbers[1]) * time.Millisecond, slot: numbers[2]}
			l.doubt(h)
		case word == "gone", (word == "granted" || word == "timeout") && h.state == waiting:
			l.doubt(h)
		}
	}
}

// numbersOf tells how many numbers stand between the word of a message and the owner.
var numbersOf = map[string]int{"granted": 1, "lost": 1, "wanted": 1, "start": 4}

// doubt checks with the server: a wait asks again, and a held lock is acquired again. The caller has the mutex.
func (l *Locks) doubt(h *Held) {
	if h.state == waiting {
		select {
		case h.woken <- struct{}{}:
		default:
		}
	} else if h.state == held {
		h.doubted = true
		l.plan(h, time.Now())
	}
}
