package main

import (
	"slices"

	"github.com/anishathalye/porcupine"
)

// The model of one lock, from the pages of the commands and docs/words.md: who holds it, how often, with which fence, and until when. Time
// is not part of the state. A lease began between request and reply, so its end has an earliest and a latest time; each step also happens
// between its own request and reply.

// slack is how long after its latest end a grant may still be there, in µs: the server counts in ms, and Redis 8 rounds up.
const slack = 2000

type grant struct {
	owner    string
	fence    int64
	holds    int64
	room     int64
	earliest int64 // the earliest end of the lease
	latest   int64
	deadline int64 // the latest end, by MAXHOLD
	process  int64
}

// waiter was seen in the queue. If known is set, it later got the lock, so it was in the queue until then.
type waiter struct {
	client int64
	known  bool
}

type state struct {
	grants []grant
	last   int64 // the greatest fence so far
	queue  []waiter
}

type op struct {
	*Record
	facts     *facts
	call, ret int64
	queue     []waiter
}

func lockModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, input, _ any) (bool, any) {
			next, ok := input.(op).step(s.(state))
			return ok, next
		},
		Equal: func(a, b any) bool {
			one, other := a.(state), b.(state)
			return one.last == other.last && slices.Equal(one.grants, other.grants) && slices.Equal(one.queue, other.queue)
		},
		DescribeOperation: func(input, _ any) string {
			o := input.(op)
			return string(o.Call) + " -> " + string(o.Reply)
		},
	}
}

func (o op) of(owner string) lockOwner { return lockOwner{o.Key, owner} }

// unsure says whether a command of that owner without an answer may have been executed by then.
func (o op) unsure(owner string) bool { return since(o.facts.unsure, o.of(owner)) <= o.ret }

func (o op) elsewhere(g grant) bool { return o.facts.lossy && g.process != process(o.Client) }

// mayHaveEnded says whether the grant may have ended before this step.
func (o op) mayHaveEnded(g grant) bool {
	ends, _ := o.facts.sessionEnds(o.of(g.owner))
	return o.ret >= g.earliest || o.unsure(g.owner) || since(o.facts.broken, o.Key) <= o.ret || ends <= o.ret
}

// mayBeMissing also allows for what a failover may have lost. It must not be used to judge mutual exclusion.
func (o op) mayBeMissing(g grant) bool { return o.mayHaveEnded(g) || o.elsewhere(g) }

// hasEnded says whether the grant has certainly ended.
func (o op) hasEnded(g grant) bool {
	_, session := o.facts.sessionEnds(o.of(g.owner))
	return !session && !o.unsure(g.owner) && !o.elsewhere(g) && o.call > g.latest+slack
}

// mayBeUntold says whether the owner may have a grant that no answer reported.
func (o op) mayBeUntold(owner string) bool {
	return since(o.facts.phantom, o.of(owner)) <= o.ret || o.facts.lossy
}

func (o op) step(s state) (state, bool) {
	switch o.ask.kind {
	case "Acquire":
		if o.reply.kind == "Null" {
			return s, o.refusedWithReason(s)
		}
		return o.acquire(s)
	case "Release", "Extend":
		if o.notHeld() {
			// LOCK.MEXTEND refuses if one of its locks is not held, which may be another lock.
			if o.ask.kind == "Extend" && len(o.With) > 1 {
				return s, true
			}
			return o.gone(s, func(g grant) bool { return g.owner == o.ask.Owner })
		}
		return o.release(s)
	case "Break":
		return o.breaks(s)
	}
	return o.look(s)
}

func (s state) find(owner string) int {
	return slices.IndexFunc(s.grants, func(g grant) bool { return g.owner == owner })
}

func (s state) without(drop func(grant) bool) state {
	s.grants = slices.DeleteFunc(slices.Clone(s.grants), drop)
	return s
}

func (s state) with(g grant) state {
	s = s.without(func(other grant) bool { return other.owner == g.owner })
	s.grants = append(s.grants, g)
	slices.SortFunc(s.grants, func(a, b grant) int { return int(a.fence - b.fence) })
	return s
}

// gone requires that those grants have ended, and removes them. A server that stood still may end a session later.
func (o op) gone(s state, which func(grant) bool) (state, bool) {
	for _, g := range s.grants {
		if which(g) && !o.mayBeMissing(g) {
			return s, false
		}
	}
	return s.without(func(g grant) bool {
		_, session := o.facts.sessionEnds(o.of(g.owner))
		return which(g) && !session
	}), true
}

// fits says whether the other holders that are certain leave room for this request.
func (o op) fits(s state) bool {
	others := s.without(func(g grant) bool { return g.owner == o.ask.Owner || o.mayHaveEnded(g) }).grants
	count := int64(len(others))
	return count < o.ask.room && !slices.ContainsFunc(others, func(g grant) bool { return g.room <= count })
}

// refusedWithReason checks a null reply, which needs a holder in the way, or a queue; with several locks, of any of them.
func (o op) refusedWithReason(s state) bool {
	if o.blocks(o.facts) && (*o.ask.Block == 0 || *o.Received < o.Sent+*o.ask.Block*1000) {
		return false
	}
	if len(o.With) > 1 || o.facts.lossy || o.facts.somebodyWaits(o.Key, o.call, o.ret) && !o.blocks(o.facts) {
		return true
	}
	// A client that waited was itself in the queue.
	if o.blocks(o.facts) || o.facts.phantomAt(o.Key, o.ret) {
		return true
	}
	others := s.without(func(g grant) bool { return g.owner == o.ask.Owner || o.hasEnded(g) }).grants
	count := int64(len(others))
	return count >= o.ask.room || slices.ContainsFunc(others, func(g grant) bool { return g.room <= count })
}

func (o op) acquire(s state) (state, bool) {
	at, answer := s.find(o.ask.Owner), o.reply
	if answer.Lease > o.ask.Lease && o.isGrant() {
		return s, false
	}
	if at >= 0 && s.grants[at].fence == answer.Fence {
		return o.reenter(s, s.grants[at])
	}
	untold := o.mayBeUntold(o.ask.Owner) && (o.ask.Once || answer.Holds > 1)
	if at >= 0 && !o.mayBeMissing(s.grants[at]) || !untold && (answer.Holds != 1 || answer.Fence <= s.last) {
		return s, false
	}
	if !o.fits(s) || !untold && !o.inTurn(s) {
		return s, false
	}
	g := grant{
		owner: o.ask.Owner, fence: answer.Fence, holds: answer.Holds, room: o.ask.room, process: process(o.Client),
		earliest: o.call + answer.Lease*1000, latest: o.ret + o.ask.Lease*1000, deadline: never,
	}
	if o.ask.MaxHold != nil {
		g.deadline = answer.Fence + *o.ask.MaxHold*1000
		if o.call+answer.Lease*1000 > g.deadline+slack {
			return s, false
		}
	}
	// Grants that exclude the new one must have ended.
	s = s.without(func(other grant) bool { return g.room == 1 || other.room == 1 }).with(g)
	s.last = max(s.last, g.fence)
	s.queue = slices.DeleteFunc(slices.Clone(s.queue), func(w waiter) bool { return w.client == o.Client })
	return s, true
}

func (o op) reenter(s state, g grant) (state, bool) {
	holds := g.holds
	if !o.ask.Once {
		holds++
	}
	if o.hasEnded(g) || o.reply.Holds != holds && !o.unsure(g.owner) && !o.elsewhere(g) {
		return s, false
	}
	if o.ask.room < g.room {
		if !o.fits(s) {
			return s, false
		}
		if o.ask.room == 1 {
			s = s.without(func(other grant) bool { return other.owner != g.owner })
		}
		g.room = o.ask.room
	}
	end := o.reply.Lease * 1000
	if o.call+end > g.deadline+slack {
		return s, false
	}
	// An acquire never shortens the lease. With several locks, the answer has the shortest of their leases.
	if len(o.With) < 2 && o.ret+end+slack < g.earliest && !o.unsure(g.owner) && !o.elsewhere(g) {
		return s, false
	}
	g.holds = o.reply.Holds
	g.earliest, g.latest = max(g.earliest, o.call+end), max(g.latest, o.ret+o.ask.Lease*1000)
	return s.with(g), true
}

// inTurn checks that a waiter seen in the queue gets the lock before those behind it and those that came later.
func (o op) inTurn(s state) bool {
	if o.facts.upgrades[o.Record] {
		return true
	}
	for _, w := range s.queue {
		if w.client == o.Client {
			return true
		}
		if w.known && process(w.client) == process(o.Client) {
			return false
		}
	}
	return true
}

// release also checks extensions: only the owner can do either.
func (o op) release(s state) (state, bool) {
	at, n := s.find(o.ask.Owner), o.reply.number
	if at < 0 || o.hasEnded(s.grants[at]) {
		return s, o.mayBeUntold(o.ask.Owner)
	}
	g := s.grants[at]
	if o.ask.kind == "Extend" {
		if n > o.ask.Lease || o.call+n*1000 > g.deadline+slack {
			return s, false
		}
		g.earliest, g.latest = o.call+n*1000, o.ret+o.ask.Lease*1000
		return s.with(g), true
	}
	left := g.holds - 1
	if o.ask.All {
		left = 0
	}
	if n != left && (o.ask.All || !o.unsure(g.owner) && !o.elsewhere(g)) {
		return s, false
	}
	if g.holds = n; n > 0 {
		return s.with(g), true
	}
	return s.without(func(other grant) bool { return other.owner == g.owner }), true
}

func (o op) breaks(s state) (state, bool) {
	certain, possible := int64(0), int64(0)
	for _, g := range s.grants {
		if !o.mayBeMissing(g) {
			certain++
		}
		if !o.hasEnded(g) {
			possible++
		}
	}
	n := o.reply.number
	untold := o.facts.phantomAt(o.Key, o.ret) || o.facts.lossy
	return s.without(func(grant) bool { return true }), n >= certain && (n <= possible || untold)
}

// look checks a LOCK.INFO: it shows each grant that has not ended, the oldest first, and no others.
func (o op) look(s state) (state, bool) {
	before := int64(0)
	for _, seen := range o.reply.Grants {
		at := s.find(seen.Owner)
		there := at >= 0 && s.grants[at].fence == seen.Fence && !o.hasEnded(s.grants[at])
		if !there && !o.mayBeUntold(seen.Owner) || seen.Fence <= before || seen.Most < int64(len(o.reply.Grants)) {
			return s, false
		}
		before = seen.Fence
	}
	s, ok := o.gone(s, func(g grant) bool {
		return !slices.ContainsFunc(o.reply.Grants, func(seen shown) bool { return seen.Fence == g.fence })
	})
	s.queue = o.queue
	return s, ok
}
