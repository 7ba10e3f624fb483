package redislock

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Option sets how a lock is acquired. Times are whole milliseconds.
type Option func(*request)

// request is what the user asks for, as words of the server's commands. Bad input is refused here, before anything is sent.
type request struct {
	keys                 []string
	wait                 *time.Duration
	lease                time.Duration
	owner                string
	named, kept, session bool
	shared, starts       bool // starts: work can begin at the start message, without a claim
	limit, slot          int
	mode, sync           []any
	wrong                error
}

func (r *request) refuse(format string, args ...any) {
	if r.wrong == nil {
		r.wrong = fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
}

func (r *request) ms(name string, d, least time.Duration) int64 {
	if d < least {
		r.refuse("%s must be at least %v: %v", name, least, d)
	}
	return max(1, d.Milliseconds())
}

// Wait limits the wait; 0 asks once. Without this option, only the end of the context ends the wait.
func Wait(d time.Duration) Option {
	return func(r *request) { r.ms("wait", d, 0); r.wait = &d }
}

// Lease is how long the lock stays held if its holder vanishes: by default the server's own default, 30 s.
func Lease(d time.Duration) Option {
	return func(r *request) { r.ms("lease", d, time.Millisecond); r.lease = d }
}

// NoRenewal: the lock ends with its lease, unless Extend is called.
func NoRenewal() Option { return func(r *request) { r.kept = false } }

// MaxHold: the lock is never held for longer, however often it is renewed.
func MaxHold(d time.Duration) Option {
	return func(r *request) { r.mode = append(r.mode, "MAXHOLD", r.ms("maximum age", d, time.Millisecond)) }
}

// Session: the server renews the lock, and frees it as soon as the connection of this process closes.
func Session() Option {
	return func(r *request) { r.session = true; r.mode = append(r.mode, "SESSION") }
}

// Shared is for readers: any number of them hold the lock together.
func Shared() Option { return func(r *request) { r.shared = true; r.mode = append(r.mode, "SHARED") } }

// Limit: at most n hold the lock together. Held.Slot tells which of them this one is.
func Limit(n int) Option {
	return func(r *request) {
		if n < 1 {
			r.refuse("a limit must be at least 1: %d", n)
		}
		r.limit = n
		r.mode = append(r.mode, "LIMIT", n)
	}
}

// Slot asks for this number among those of Limit, and for no other.
func Slot(n int) Option {
	return func(r *request) {
		if n < 1 {
			r.refuse("a slot must be at least 1: %d", n)
		}
		r.slot = n
		r.mode = append(r.mode, "SLOT", n)
	}
}

// Label describes the holder to operators.
func Label(text string) Option { return func(r *request) { r.mode = append(r.mode, "LABEL", text) } }

// Owner sets the owner name, so that the same owner can enter the lock again, or use it in another process. By default, it is a fresh name.
func Owner(name string) Option { return func(r *request) { r.owner, r.named = name, true } }

// Detect fails with ErrDeadlock if the wait would never end. For this, all locks of a task need the same Owner.
func Detect() Option { return func(r *request) { r.mode = append(r.mode, "DETECT") } }

// Sync: the lock counts only once so many replicas have it, within d. The client's ReadTimeout must be above d.
func Sync(replicas int, d time.Duration) Option {
	return func(r *request) {
		if replicas < 1 {
			r.refuse("a number of replicas must be at least 1: %d", replicas)
		}
		r.sync = []any{"SYNC", replicas, r.ms("sync", d, time.Millisecond)}
	}
}

func newRequest(keys []string, options []Option) (*request, error) {
	r := &request{keys: append([]string(nil), keys...), kept: true}
	for _, option := range options {
		option(r)
	}
	for at, key := range keys {
		if slices.Contains(keys[:at], key) {
			r.refuse("the key %q is named twice", key)
		}
	}
	if len(keys) == 0 {
		r.refuse("a lock needs a key")
	}
	if r.shared && r.limit > 0 {
		r.refuse("Shared and Limit exclude each other")
	}
	if r.slot > r.limit {
		r.refuse("a slot must be one of those of Limit: %d", r.slot)
	}
	if r.named && (r.owner == "" || len(r.owner) > 128) {
		r.refuse("an owner must be 1 to 128 bytes long: %d", len(r.owner))
	}
	if !r.named {
		r.owner = newUUID()
	}
	r.kept = r.kept || r.session
	// A start message tells of one new grant, without a session or confirming replicas. All other grants have to be claimed.
	r.starts = !r.named && !r.session && r.sync == nil && len(keys) == 1
	return r, r.wrong
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never returns an error
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	digits := hex.EncodeToString(b[:])
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
}

func (r *request) String() string { return strings.Join(r.keys, ", ") }

func (r *request) command(verb string, words ...any) []any {
	command := []any{"LOCK." + verb}
	if len(r.keys) > 1 {
		command = []any{"LOCK.M" + verb, len(r.keys)}
	}
	for _, key := range r.keys {
		command = append(command, key)
	}
	return append(command, words...)
}

// acquire makes the words of an acquire. A negative block asks once, and 0 waits for ever. With a number, the server may grant the lock
// with a start message that repeats the number; then no claim is needed before the work begins.
func (r *request) acquire(channel string, block int64, lease time.Duration, number int64) []any {
	words := append(px("OWNER", r.owner, lease), "NOTIFY", channel)
	if number > 0 {
		words = append(words, "START", number)
	}
	words = append(words, "ONCE")
	if block >= 0 {
		words = append(words, "BLOCK", block)
	}
	return r.command("ACQUIRE", append(append(words, r.mode...), r.sync...)...)
}

func (r *request) extend(fences []int64, lease time.Duration) []any {
	words := px("", r.owner, lease)
	return r.command("EXTEND", append(append(words, fenceOf(fences)...), r.sync...)...)
}

func (r *request) release(fences []int64) []any {
	return r.command("RELEASE", append([]any{r.owner}, fenceOf(fences)...)...)
}

func (r *request) leave() []any { return []any{"LOCK.LEAVE", r.keys[0], r.owner} }

func px(word, owner string, lease time.Duration) []any {
	words := []any{owner}
	if word != "" {
		words = []any{word, owner}
	}
	if lease > 0 {
		words = append(words, "PX", max(1, lease.Milliseconds()))
	}
	return words
}

// fenceOf restricts a command to this grant. Locks that were entered again have different fences, so no FENCE can name them.
func fenceOf(fences []int64) []any {
	for _, fence := range fences {
		if fence != fences[0] {
			return nil
		}
	}
	if len(fences) == 0 {
		return nil
	}
	return []any{"FENCE", fences[0]}
}
