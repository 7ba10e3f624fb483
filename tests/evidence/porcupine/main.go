// Judges histories of locks with Porcupine, a checker of linearizability: is there an order of all commands, each between its request and
// its reply, in which a lock as documented would have given these replies?
//
//	go run . [-failovers] HISTORY...
//
// It prints a line for each history, and exits with 1 if one of them is refused, with 2 if one could not be judged.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

func main() {
	lossy := flag.Bool("failovers", false, "the servers replicate, and a new one may lack what an earlier one acknowledged")
	limit := flag.Duration("limit", time.Minute, "how long one history may take")
	flag.Parse()
	status := 0
	for _, path := range flag.Args() {
		history, err := read(path)
		if err != nil {
			fmt.Printf("unreadable: %s: %v\n", path, err)
			status = 2
			continue
		}
		began := time.Now()
		fault, undecided := judge(history, *lossy, *limit)
		verdict := "sound"
		switch {
		case fault != "":
			verdict, status = "refused", max(status, 1)
		case undecided != "":
			verdict, fault, status = "undecided", undecided, 2
		}
		fmt.Printf("%s: %s: %d records in %.1f s: %s\n", verdict, path, len(history), time.Since(began).Seconds(), fault)
	}
	if flag.NArg() == 0 {
		status = 2
	}
	os.Exit(status)
}

// judge says what is wrong with a history, or what could not be decided.
func judge(history []*Record, lossy bool, limit time.Duration) (fault, undecided string) {
	if fault := togetherOrNot(history); fault != "" {
		return fault, ""
	}
	known := factsOf(history, lossy)
	keys := map[string][]porcupine.Operation{}
	var fences []porcupine.Operation
	told := map[question]int64{}
	waits := map[waitsOf][]*Record{}
	for _, r := range history {
		if r.ask.kind == "Acquire" && r.ask.Block != nil {
			waits[waitsOf{r.Client, r.Key}] = append(waits[waitsOf{r.Client, r.Key}], r)
		}
	}
	for _, r := range history {
		if r.reply.kind == "Waits" {
			return fmt.Sprintf("line %d: nobody answered, though the lock was free", r.line), ""
		}
		o, judged := operation(r, known)
		if !judged {
			continue
		}
		if r.ask.kind == "Info" {
			o.queue = queueOf(r, waits, known)
		}
		keys[r.Key] = append(keys[r.Key], porcupine.Operation{ClientId: 0, Input: o, Call: o.call, Return: o.ret})
		// All grants of one command have one fence.
		asked := question{r.Client, r.Sent}
		if r.isGrant() && (len(r.With) == 0 || told[asked] != r.reply.Fence) {
			call := r.Sent
			if r.reply.Fence <= *r.Received {
				call = max(call, r.reply.Fence) // the time of the grant, in µs
			}
			fences = append(fences, porcupine.Operation{Input: r.reply.Fence, Call: call, Return: *r.Received})
			told[asked] = r.reply.Fence
		}
	}
	switch porcupine.CheckOperationsTimeout(fenceModel(), fences, limit) {
	case porcupine.Illegal:
		return "the fences do not rise", ""
	case porcupine.Unknown:
		undecided = fmt.Sprintf("fences: not within %v", limit)
	}
	for _, key := range sorted(keys) {
		result, info := porcupine.CheckOperationsVerbose(lockModel(), keys[key], limit)
		switch result {
		case porcupine.Illegal:
			return explain(key, keys[key], info), ""
		case porcupine.Unknown:
			undecided = fmt.Sprintf("lock %q: not within %v", key, limit)
		}
	}
	return "", undecided
}

// fenceModel: each new grant, of whatever lock, has a fence greater than those before.
func fenceModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(last, fence, _ any) (bool, any) { return fence.(int64) > last.(int64), fence },
	}
}

// operation makes a step of the model from a record; false if the record says nothing about a lock.
func operation(r *Record, known *facts) (op, bool) {
	if !r.answered() || r.Key == "" || r.reply.kind == "Refused" && !r.notHeld() || r.reply.kind == "Gone" {
		return op{}, false
	}
	if r.reply.kind == "Refused" && r.ask.kind == "Acquire" {
		return op{}, false
	}
	o := op{Record: r, facts: known, call: r.Sent, ret: *r.Received}
	if r.blocks(known) {
		switch {
		// The fence is the time of the grant, in µs.
		case r.isGrant() && r.reply.Fence <= o.ret:
			o.call = max(o.call, r.reply.Fence)
		case r.reply.kind == "Null":
			o.call = min(r.Sent+*r.ask.Block*1000, o.ret)
		}
	}
	return o, true
}

type waitsOf struct {
	client int64
	key    string
}

// queueOf returns the queue that a LOCK.INFO showed, and which of its waiters got the lock later by that same wait.
func queueOf(look *Record, all map[waitsOf][]*Record, known *facts) []waiter {
	var queue []waiter
	for _, client := range look.reply.Queue {
		var waits []*Record
		for _, r := range all[waitsOf{client, look.Key}] {
			if r.Sent < *look.Received && (!r.answered() || *r.Received > look.Sent) {
				waits = append(waits, r)
			}
		}
		certain := len(waits) == 1 && waits[0].isGrant() && !known.upgrades[waits[0]] && waits[0].reply.Fence >= waits[0].Sent
		queue = append(queue, waiter{client, certain})
	}
	return queue
}

// togetherOrNot checks commands for several locks: they get all locks or none, and new grants of one command have one fence.
func togetherOrNot(history []*Record) string {
	first := map[question]*Record{}
	for _, r := range history {
		if r.ask.kind != "Acquire" || len(r.With) == 0 {
			continue
		}
		asked := question{r.Client, r.Sent}
		other, ok := first[asked]
		if !ok || string(other.Call) != string(r.Call) {
			first[asked] = r
			continue
		}
		if other.reply.kind != r.reply.kind {
			return fmt.Sprintf("lines %d and %d: all or none", other.line, r.line)
		}
		if !r.ask.Once && other.isGrant() && r.isGrant() && other.reply.Fence != r.reply.Fence {
			return fmt.Sprintf("lines %d and %d: one command, two fences", other.line, r.line)
		}
	}
	return ""
}

// explain names the commands that are not in the longest order that Porcupine found.
func explain(key string, all []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, partition := range info.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	var rest []op
	for at, operation := range all {
		if !slices.Contains(longest, at) {
			rest = append(rest, operation.Input.(op))
		}
	}
	slices.SortFunc(rest, func(a, b op) int { return int(a.ret - b.ret) })
	text, _ := json.Marshal(rest[0].Record)
	return fmt.Sprintf("lock %q: no order; after %d of %d commands line %d does not fit: %s", key, len(longest), len(all), rest[0].line, text)
}

func sorted(keys map[string][]porcupine.Operation) []string {
	var names []string
	for name := range keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
