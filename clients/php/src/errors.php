<?php

declare(strict_types=1);

namespace Redislock;

/** Base of all errors of this package, except for bad input: this is an \InvalidArgumentException, before anything is sent. */
class LockError extends \RuntimeException
{
}

/** The lock was not free until the wait was over. */
final class NotAcquired extends LockError
{
}

/** The lock has ended without a release: somebody else may hold it now. */
final class LockLost extends LockError
{
    /** Why the lock was lost, without the names of the locks. */
    public readonly string $reason;

    public function __construct(string $keys, string $said, ?\Throwable $previous = null)
    {
        parent::__construct("$keys: $said", previous: $previous);
        $this->reason = preg_match('/^(NOTHELD|WRONGTYPE) /', $said) ? 'the server says that it is not held' : $said;
    }
}

/** The wait would never end, since each owner in the cycle waits for the next one. */
final class Deadlock extends LockError
{
    public function __construct(/** Who waits for whom. */ public readonly string $cycle)
    {
        parent::__construct($cycle);
    }
}

/** Too few replicas confirmed the lock in time (`sync`). */
final class NotConfirmed extends LockError
{
}

/** The server has no lock commands. */
final class NoModule extends LockError
{
}

/** The server's Redislock doesn't know an option. */
final class TooOld extends LockError
{
}

/** Any other error of the server; `word()` is its code. */
final class Refused extends LockError
{
    public function word(): string
    {
        return strtok($this->getMessage(), ' ');
    }
}

/** No answer came, or the server can't serve the command at the moment, or is no longer the right one to ask. */
final class ConnectionLost extends LockError
{
}
