<?php

declare(strict_types=1);

namespace Redislock;

/** What all errors of this package are, but for bad input, which is an \InvalidArgumentException before anything is sent. */
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
    /** Why, without the keys. */
    public readonly string $reason;

    public function __construct(string $keys, string $said, ?\Throwable $previous = null)
    {
        parent::__construct("$keys: $said", previous: $previous);
        $this->reason = preg_match('/^(NOTHELD|WRONGTYPE) /', $said) ? 'the server says that it is not held' : $said;
    }
}

/** This wait would never end. */
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

/** Anything else that the server refuses; `code()` is the first word. */
final class Refused extends LockError
{
    public function word(): string
    {
        return strtok($this->getMessage(), ' ');
    }
}

/** No answer came, or the server is not yet, or no longer, the one to ask. */
final class ConnectionLost extends LockError
{
}
