// Converts commands and outcomes between JSON and the package: for the program, and for the replay, which has a copy of this file.
package main

import (
	"context"
	"errors"
	"time"

	"redislock.test/redislock"
)

type message struct {
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
