package redislock

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The server's answer to a renewal can come a moment before the clock's look: too short a moment to be hit from outside.
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
