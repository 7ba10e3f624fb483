package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// A Record is a line of a history: see ../README.md.
type Record struct {
	Client   int64           `json:"client"`
	Sent     int64           `json:"sent"`
	Received *int64          `json:"received"`
	Key      string          `json:"key"`
	With     []string        `json:"with"`
	Call     json.RawMessage `json:"call"`
	Reply    json.RawMessage `json:"reply"`

	line  int
	ask   ask
	reply reply
}

type ask struct {
	kind    string // Acquire, Release, Extend, Break, Info, Close, Kill
	Owner   string
	Lease   int64
	Block   *int64
	Once    bool
	Session bool
	MaxHold *int64 `json:"max_hold"`
	Room    json.RawMessage
	All     bool

	room   int64
	killed int64
}

type reply struct {
	kind   string // Granted, Number, Held, Null, Refused, Gone, Waits
	number int64
	word   string
	Fence  int64
	Holds  int64
	Lease  int64
	Grants []shown
	Queue  []int64
}

type shown struct {
	Owner string
	Fence int64
	Most  int64
}

// unbounded is the room of a grant with SHARED.
const unbounded = int64(1)<<62 - 1

// one parses either "Name" or {"Name": content}.
func one(text json.RawMessage) (string, json.RawMessage, error) {
	var name string
	if json.Unmarshal(text, &name) == nil {
		return name, nil, nil
	}
	var tagged map[string]json.RawMessage
	if err := json.Unmarshal(text, &tagged); err != nil {
		return "", nil, err
	}
	for name, content := range tagged {
		return name, content, nil
	}
	return "", nil, fmt.Errorf("nothing in %s", text)
}

func (r *Record) parse() (err error) {
	var content json.RawMessage
	if r.ask.kind, content, err = one(r.Call); err != nil {
		return err
	}
	switch r.ask.kind {
	case "Kill":
		err = json.Unmarshal(content, &r.ask.killed)
	case "Acquire", "Release", "Extend":
		err = json.Unmarshal(content, &r.ask)
	}
	if err != nil {
		return err
	}
	if r.ask.room, err = room(r.ask.Room); err != nil {
		return err
	}
	if r.reply.kind, content, err = one(r.Reply); err != nil {
		return err
	}
	switch r.reply.kind {
	case "Number":
		err = json.Unmarshal(content, &r.reply.number)
	case "Refused":
		err = json.Unmarshal(content, &r.reply.word)
	case "Granted", "Held":
		err = json.Unmarshal(content, &r.reply)
	}
	return err
}

func room(text json.RawMessage) (int64, error) {
	if len(text) == 0 {
		return 1, nil
	}
	name, content, err := one(text)
	if err != nil {
		return 0, err
	}
	switch name {
	case "Plain":
		return 1, nil
	case "Shared":
		return unbounded, nil
	case "Limit":
		var most int64
		return most, json.Unmarshal(content, &most)
	}
	return 0, fmt.Errorf("no such room: %s", name)
}

func read(path string) ([]*Record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []*Record
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		record := &Record{line: len(history) + 1}
		if err := json.Unmarshal(lines.Bytes(), record); err != nil {
			return nil, fmt.Errorf("line %d: %w", record.line, err)
		}
		if err := record.parse(); err != nil {
			return nil, fmt.Errorf("line %d: %w", record.line, err)
		}
		history = append(history, record)
	}
	return history, lines.Err()
}

// process returns the number of the server to which a connection belongs.
func process(client int64) int64 { return client / 1_000_000 }

func (r *Record) answered() bool { return r.Received != nil }

// blocks says whether the command waited: inside MULTI, BLOCK has no effect.
func (r *Record) blocks(h *facts) bool {
	return r.ask.Block != nil && !h.transaction[question{r.Client, r.Sent}]
}

func (r *Record) notHeld() bool { return r.reply.kind == "Refused" && r.reply.word == "NOTHELD" }

// isGrant says whether the reply reports a grant that this command made.
func (r *Record) isGrant() bool {
	if r.ask.kind != "Acquire" || r.reply.kind != "Granted" || r.reply.Holds != 1 || !r.answered() {
		return false
	}
	return !r.ask.Once || r.reply.Fence >= r.Sent
}
