<?php

declare(strict_types=1);

namespace Redislock;

use Closure;
use InvalidArgumentException;
use Redis;
use RedisCluster;
use Throwable;

/**
 * The locks of a process. Give it the program's connection, or better a function that connects: this is called again when the connection is
 * lost (so it can ask sentinels for the primary), and in a child after a fork.
 *
 * The options, by name: wait, lease, shared, limit, slot, label, detect, sync, session, owner, maxHold, renew. See Request.
 */
final class Locks
{
    private const TRY_AGAIN = 0.1;
    /** How many seconds after the end of the wait the server's answer may come. */
    private const MARGIN = 1.0;

    private readonly Connection $connection;
    /** @var array<string, int> how many locks in this process share each grant */
    private array $shares = [];
    /** @var list<array{list<mixed>, Request, float}> releases without an answer, and until when each is worth sending */
    private array $owed = [];

    /** @param Redis|RedisCluster|Closure(): (Redis|RedisCluster) $client */
    public function __construct(Redis|RedisCluster|Closure $client, private readonly ?Observer $observer = null)
    {
        $this->connection = new Connection($client);
    }

    /**
     * Runs the work while it holds the lock, or all of several locks, and returns the result of the work.
     *
     * @template T
     * @param string|list<string> $keys
     * @param callable(Held): T $work
     * @return T
     */
    public function withLock(string|array $keys, callable $work, mixed ...$options): mixed
    {
        $held = $this->acquire($keys, ...$options);
        try {
            $result = $work($held);
        } catch (Throwable $error) {
            try {
                $held->release();
            } catch (LockError | InvalidArgumentException) { // the error of the work is thrown instead
            }
            throw $error;
        }
        $held->release();
        return $result;
    }

    /** @param string|list<string> $keys */
    public function acquire(string|array $keys, mixed ...$options): Held
    {
        $request = new Request(array_values((array) $keys), ...$options);
        if ($this->observer === null) {
            return new Held($this, $request, ...$this->ask($request));
        }
        $request->watch = new Watch($this->observer, $request);
        try {
            $held = new Held($this, $request, ...$this->ask($request));
        } catch (Throwable $error) {
            $request->watch->refused($error);
            throw $error;
        }
        $request->watch->acquired($held->fence());
        return $held;
    }

    /**
     * Asks once, without waiting: null if somebody else holds the lock.
     *
     * @param string|list<string> $keys
     */
    public function tryAcquire(string|array $keys, mixed ...$options): ?Held
    {
        try {
            return $this->acquire($keys, ...['wait' => 0.0] + $options);
        } catch (NotAcquired) {
            return null;
        }
    }

    /** @internal Returns the server's reply, and the time just before the command was sent. */
    public function ask(Request $request): array
    {
        $once = $request->wait === 0.0;
        $end = self::now() + ($request->wait ?? INF);
        $trouble = null;
        for ($tries = 1;; $tries++) {
            $began = self::now();
            $first = $request->watch?->waits === false; // with an observer, first ask without a wait
            $left = $once || $first ? null : max(0.001, min($end - $began, $this->connection->longestWait()));
            $more = ($left ?? 0) + $request->syncSeconds();
            try {
                $this->payOff();
                $reply = $this->connection->send($request->acquire($left), $more > 0 ? $more + self::MARGIN : null, $request->database);
                $granted = $reply === null ? null : $this->dated($request, $reply, $began);
                if ($granted !== null) {
                    return $granted;
                }
                if (!$once && self::now() < $end) {
                    $first && $request->watch->waiting();
                    continue;
                }
                if ($trouble !== null && count($request->keys) > 1) { // without one of them, it may hold the others
                    $this->forget($request);
                }
                throw new NotAcquired("$request is not free");
            } catch (ConnectionLost $trouble) {
                if ($once ? $tries > 1 : self::now() >= $end) {
                    $this->forget($request);
                    throw $once ? $trouble : new NotAcquired("could not ask for $request: {$trouble->getMessage()}", previous: $trouble);
                }
                usleep((int) (1e6 * max(0, min(self::TRY_AGAIN, $end - self::now()))));
            } catch (Refused $refused) {
                if ($first && !$once && $refused->word() === 'GRACE') { // a waiter is not refused during a grace
                    $request->watch->waiting();
                    continue;
                }
                if ($trouble !== null || $refused->word() === 'NOREPLICAS') {
                    $this->forget($request);
                }
                throw self::explained($refused, $request);
            }
        }
    }

    /**
     * A grant, and a time from which its lease counts. The reply may have been sent at any moment of the wait, and its lease counts from then:
     * so after a long wait, this extends the lease. Null if the grant has ended meanwhile: then no session has begun either.
     */
    private function dated(Request $request, array $reply, float $began): ?array
    {
        $left = $reply[3];
        if ($left < 0 || ($request->session && $left > 0) || self::now() - $began < $left / 3000) {
            return [$reply, $began];
        }
        $began = self::now();
        $fences = (array) $reply[1];
        try {
            $reply[3] = $this->connection->send($request->extend($fences), self::MARGIN + $request->syncSeconds(), $request->database);
            return [$reply, $began];
        } catch (Refused $refused) {
            try { // the other locks of several may still be held
                $this->connection->send($request->release($fences), 1.0, $request->database);
            } catch (LockError) { // the grant ends with its lease
            }
            return $refused->word() === 'NOTHELD' ? null : throw $refused;
        }
    }

    /** @internal Sends a command, and converts the server's errors to those of this package, where it has one. */
    public function command(array $words, Request $request, ?float $within = null): mixed
    {
        try {
            return $this->connection->send($words, $within, $request->database);
        } catch (Refused $refused) {
            throw self::explained($refused, $request);
        }
    }

    /** @internal As command(), but tries again for so many seconds. `$again` is set if an earlier try may have worked. */
    public function insist(array $words, Request $request, float $seconds, bool &$again = false): mixed
    {
        for ($end = self::now() + $seconds;; $again = true) {
            try {
                return $this->command($words, $request, max(0.01, $end - self::now()));
            } catch (ConnectionLost $lost) {
                if (self::now() >= $end) {
                    throw $lost;
                }
                usleep(50_000);
            }
        }
    }

    /** @internal Notes a release that had no answer, to send it again before the next acquire. */
    public function owe(array $release, Request $request, float $until): void
    {
        $this->owed[] = [$release, $request, $until];
    }

    /** @internal @return list<string> the owners that hold the lock now, in order of their grants */
    public function owners(Request $request): array
    {
        $reply = $this->insist(['LOCK.INFO', new Key($request->keys[0]), 'FULL'], $request, 5);
        $pairs = fn(array $row) => array_column(array_chunk($row, 2), 1, 0);
        return $reply === null ? [] : array_map(fn(array $grant) => $pairs($grant)['owner'], $pairs($reply)['grants']);
    }

    /** @internal Changes how many locks in this process share the grant, and returns the new number. */
    public function share(Request $request, int $change): int
    {
        if (!$request->named) { // a random owner name is not shared
            return $change < 0 ? 0 : 1;
        }
        $name = $request->id();
        $this->shares[$name] = ($this->shares[$name] ?? 0) + $change;
        $now = $this->shares[$name];
        if ($now === 0) {
            unset($this->shares[$name]);
        }
        return $now;
    }

    /** @internal */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    private function payOff(): void
    {
        while ($this->owed !== []) {
            [$release, $request, $until] = $this->owed[0];
            try {
                self::now() < $until && $this->connection->send($release, 1.0, $request->database);
            } catch (Refused) { // an earlier try has worked, or the lock has ended
            }
            array_shift($this->owed);
        }
    }

    /** Releases a grant whose answer may have been lost. (An owner that the caller named may hold the lock in another process.) */
    private function forget(Request $request): void
    {
        if ($request->named) {
            return;
        }
        try {
            $this->connection->send($request->release([]), 1.0, $request->database);
        } catch (LockError) { // the grant ends with its lease
        }
    }

    private static function explained(Refused $refused, Request $request): LockError
    {
        $said = $refused->getMessage();
        [$word, $rest] = [...explode(' ', $said, 2), ''];
        return match (true) {
            $word === 'NOTHELD', $word === 'WRONGTYPE' && $request->taken => new LockLost((string) $request, $said, $refused),
            $word === 'DEADLOCK' => new Deadlock($rest),
            $word === 'GRACE' => new NotAcquired("$request: $rest", previous: $refused),
            $word === 'NOREPLICAS' && $request->syncSeconds() > 0 => new NotConfirmed("$request: $rest", previous: $refused),
            stripos($said, 'unknown command') !== false => new NoModule(
                'this server has no Redislock module: load libredislock.so into it (loadmodule), or connect to one that has it', previous: $refused),
            str_contains($said, 'syntax error') => new TooOld(
                "this server's Redislock doesn't know one of these options: upgrade the module, or leave the option out", previous: $refused),
            $word === 'MOVED' => new LockError("this server is one node of a cluster: the locks need a RedisCluster ($said)", previous: $refused),
            default => $refused,
        };
    }
}
