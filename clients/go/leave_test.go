package redislock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The server's answer to a renewal can come a moment before the timer finds the lease over. No test from outside can hit this moment.
func TestALossAtTheMaximumAgeIsNamedWhoeverTellsOfIt(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	locks := New(client)
	defer locks.Close()
	for _, told := range []error{errTold, errOver, redis.Nil} {
		held := &Held{locks: locks, request: &request{keys: []string{"k"}}, state: held, aged: true, until: time.Now()}
		held.cancel = func(error) {}
		locks.mutex.Lock()
		locks.lose(held, told)
		locks.mutex.Unlock()
		if !errors.Is(held.Err(), errOld) {
			t.Fatal(held.Err())
		}
	}
}

func TestARenewalThatMovesNoEndIsTheLastOneButAShorterDefaultIsKept(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	locks := New(client)
	defer locks.Close()
	for _, lowered := range []bool{false, true} {
		h := &Held{locks: locks, request: &request{keys: []string{"k"}, kept: true}, state: held, until: never(), atMost: never()}
		renew := func(passed, left time.Duration) (next bool) {
			locks.mutex.Lock()
			defer locks.mutex.Unlock()
			h.until = h.until.Add(-passed * time.Second)
			locks.renewed(h, int64(left*1000), time.Now())
			return h.due.Before(h.until)
		}
		switch {
		case !renew(0, 30), !renew(10, 30), lowered && (!renew(10, 9) || !renew(3, 9)):
			t.Fatal(lowered, "it is no longer renewed")
		case !lowered && (!renew(10, 20) || renew(7, 13) || !h.aged): // here, the maximum age is 40 s
			t.Fatal("it is renewed for nothing")
		}
	}
}

func TestAGrantWhoseLeaseIsOverWhenItsAnswerIsReadIsLost(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	locks := New(client) // not closed at the end: without a server, releasing takes long
	h := &Held{locks: locks, request: &request{keys: []string{"k"}}, fences: []int64{7}, atMost: never()}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	if !locks.hold(h, []any{"owner", int64(7), int64(1), int64(1000)}, time.Now().Add(-time.Second)) || h.ctx.Err() == nil {
		t.Fatal(h.Err())
	}
}
