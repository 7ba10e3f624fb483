package redislock

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The errors of this package, for errors.Is.
var (
	// ErrNotAcquired: the lock was not free until the wait was over.
	ErrNotAcquired = errors.New("redislock: not acquired")
	// ErrLost: the lock has ended without a release, so somebody else may hold it now.
	ErrLost = errors.New("redislock: lost")
	// ErrDeadlock: this wait would never end. A DeadlockError has the cycle.
	ErrDeadlock = errors.New("redislock: deadlock")
	// ErrNotConfirmed: too few replicas confirmed the lock in time (Sync).
	ErrNotConfirmed = errors.New("redislock: not confirmed")
	// ErrNoModule: the server has no lock commands.
	ErrNoModule = errors.New("redislock: this server has no Redislock module: load libredislock.so into it (loadmodule), or connect to one that has it")
	// ErrTooOld: the server has an older version of the module, which doesn't know an option.
	ErrTooOld = errors.New("redislock: this server's Redislock doesn't know one of these options: upgrade the module, or leave the option out")
	// ErrInvalid: bad input; nothing was sent.
	ErrInvalid = errors.New("redislock: invalid")
	// ErrClosed: the locks were closed, or their client was. In the latter case, the error is also a redis.ErrClosed.
	ErrClosed = errors.New("redislock: closed")

	errClient  = fmt.Errorf("%w: %w", ErrClosed, redis.ErrClosed)
	errOver    = errors.New("its lease is over, and no renewal came through")
	errOld     = errors.New("it has reached its maximum age (MaxHold, or the server's lock.max-hold)")
	errOthers  = errors.New("it was free, or someone else's, meanwhile")
	errTold    = errors.New("the server says that it has ended")
	errUnheard = errors.New("its release could not reach the server")
	errMissing = errors.New("one of the locks was gone when it was released")
	errNode    = errors.New("redislock: this server is one node of a cluster: give New a redis.ClusterClient")
)

// DeadlockError tells who waits for whom.
type DeadlockError struct{ Cycle string }

func (e *DeadlockError) Error() string        { return ErrDeadlock.Error() + ": " + e.Cycle }
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// passing lists the errors of a server that can't serve the command at the moment, or is no longer the right one to ask.
var passing = []string{
	"ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS Not enough", "READONLY", "TRYAGAIN", "UNBLOCKED",
}

// passes tells whether to ask again later: the connection is lost, or the server can't serve the command at the moment.
func passes(err error) bool {
	var said redis.Error
	if !errors.As(err, &said) {
		return err != nil && !errors.Is(err, redis.ErrClosed)
	}
	if errors.Is(err, errNode) {
		return false
	}
	return slices.ContainsFunc(passing, func(said string) bool { return redis.HasErrorPrefix(err, said) })
}

func isGone(err error) bool {
	return redis.HasErrorPrefix(err, "NOTHELD") || redis.HasErrorPrefix(err, "WRONGTYPE")
}

// isSyntax tells whether the server did not know a word of the command.
func isSyntax(err error) bool { return strings.Contains(err.Error(), "syntax error") }

// explained converts an error of the server to one of this package. Any other error is returned as it is.
func explained(err error, r *request) error {
	said := strings.TrimSpace(err.Error())
	code, rest, _ := strings.Cut(said, " ")
	switch {
	case code == "NOTHELD":
		return fmt.Errorf("%w: %s: %w", ErrLost, r, err)
	case code == "DEADLOCK":
		return &DeadlockError{rest}
	case code == "NOREPLICAS" && r.sync != nil:
		return fmt.Errorf("%w: %s: %w", ErrNotConfirmed, r, err)
	case code == "GRACE":
		return fmt.Errorf("%w: %s: %w", ErrNotAcquired, r, err)
	case strings.Contains(strings.ToLower(said), "unknown command"):
		return fmt.Errorf("%w (%w)", ErrNoModule, err)
	case isSyntax(err):
		return fmt.Errorf("%w (%w)", ErrTooOld, err)
	}
	return err
}
