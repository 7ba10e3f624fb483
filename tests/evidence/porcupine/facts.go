package main

import "slices"

type question struct{ client, sent int64 }

type lockOwner struct{ key, owner string }

// facts are what a history tells apart from answered commands. They only ever excuse a reply: a command without an answer may have been
// executed or not, and a connection that closed may have ended its sessions and waits.
type facts struct {
	lossy       bool // a new server may lack changes that an earlier one acknowledged
	transaction map[question]bool
	closed      map[int64]int64     // by connection: the time from which it may be closed
	unsure      map[lockOwner]int64 // the time from which a command of that owner has no answer
	phantom     map[lockOwner]int64 // the time from which an acquire of that owner has no answer
	broken      map[string]int64    // by key: the time from which a LOCK.BREAK has no answer
	sessions    map[lockOwner][]int64
	waits       map[string][]span
	upgrades    map[*Record]bool
}

type span struct{ from, to int64 }

const never = int64(1)<<62 - 1

func earliest[K comparable](in map[K]int64, key K, time int64) {
	if known, ok := in[key]; !ok || time < known {
		in[key] = time
	}
}

// since returns the earliest time at which something may have happened, or never.
func since[K comparable](in map[K]int64, key K) int64 {
	if time, ok := in[key]; ok {
		return time
	}
	return never
}

func factsOf(history []*Record, lossy bool) *facts {
	f := &facts{
		lossy: lossy, transaction: map[question]bool{}, closed: map[int64]int64{}, unsure: map[lockOwner]int64{},
		phantom: map[lockOwner]int64{}, broken: map[string]int64{}, sessions: map[lockOwner][]int64{},
		waits: map[string][]span{}, upgrades: map[*Record]bool{},
	}
	commands := map[question][]string{}
	widest := map[lockOwner]int64{}
	inOrder := slices.Clone(history)
	slices.SortStableFunc(inOrder, func(a, b *Record) int { return int(a.Sent - b.Sent) })
	for _, r := range inOrder {
		of := lockOwner{r.Key, r.ask.Owner}
		asked := question{r.Client, r.Sent}
		// A command for several locks has a record for each, but its call counts once.
		if len(r.With) == 0 || !slices.Contains(commands[asked], string(r.Call)) {
			commands[asked] = append(commands[asked], string(r.Call))
		}
		f.transaction[asked] = len(commands[asked]) > 1
		if !r.answered() {
			earliest(f.closed, r.Client, r.Sent)
			switch r.ask.kind {
			case "Acquire":
				earliest(f.phantom, of, r.Sent)
				fallthrough
			case "Release", "Extend":
				earliest(f.unsure, of, r.Sent)
			case "Break":
				earliest(f.broken, r.Key, r.Sent)
			}
		}
		switch {
		case r.ask.kind == "Close":
			earliest(f.closed, r.Client, r.Sent)
		case r.ask.kind == "Kill" && !(r.reply.kind == "Number" && r.reply.number == 0):
			earliest(f.closed, r.ask.killed, r.Sent)
		case r.ask.kind == "Acquire":
			if r.ask.Session {
				f.sessions[of] = append(f.sessions[of], r.Client)
			}
			if had, ok := widest[of]; ok && had > r.ask.room {
				f.upgrades[r] = true
			}
			widest[of] = max(widest[of], r.ask.room)
			if r.ask.Block != nil {
				to := never
				if r.answered() {
					to = *r.Received
				}
				f.waits[r.Key] = append(f.waits[r.Key], span{r.Sent, to})
			}
		}
	}
	return f
}

// sessionEnds returns the time from which an owner's session may have ended; false if the owner has no session.
func (f *facts) sessionEnds(of lockOwner) (int64, bool) {
	ends := never
	for _, client := range f.sessions[of] {
		ends = min(ends, since(f.closed, client))
	}
	return ends, len(f.sessions[of]) > 0
}

// somebodyWaits says whether there may have been a queue at some time between from and to.
func (f *facts) somebodyWaits(key string, from, to int64) bool {
	return slices.ContainsFunc(f.waits[key], func(wait span) bool { return wait.from <= to && from <= wait.to })
}

// phantomAt says whether an owner that was never told may hold the lock.
func (f *facts) phantomAt(key string, time int64) bool {
	for of, sent := range f.phantom {
		if of.key == key && sent <= time {
			return true
		}
	}
	return false
}
