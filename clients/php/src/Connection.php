<?php

declare(strict_types=1);

namespace Redislock;

use Closure;
use InvalidArgumentException;
use Redis;
use RedisCluster;
use RedisClusterException;
use RedisException;
use Throwable;
use WeakMap;

/** The connection of the process. Every failure becomes an exception here: phpredis throws only some errors, and returns false for others. */
final class Connection
{
    /** Errors of a server that can't serve the command at the moment; and of these, those after which to connect anew. */
    private const PASSING = [
        'ASK', 'BUSY', 'CLUSTERDOWN', 'LOADING', 'MASTERDOWN', 'MOVED', 'NOREPLICAS Not enough', 'READONLY', 'TRYAGAIN', 'UNBLOCKED',
    ];
    private const REPLACED = ['LOADING', 'MASTERDOWN', 'READONLY', 'UNBLOCKED'];

    /** @var ?WeakMap<Redis|RedisCluster, int> for each client that a user gave, the process in which that was */
    private static ?WeakMap $given = null;
    /** The process that first used the package: any other process is its child. */
    private static ?int $first = null;
    /** @var list<?object> the parent's clients, kept because freeing one would end a TLS session for both, or pool its connection */
    private static array $inherited = [];

    private Redis|RedisCluster|null $client = null;
    private int $process;
    private int $database = 0;
    private bool $closed = false;
    private bool $connected = false;

    /** @param Redis|RedisCluster|Closure(): (Redis|RedisCluster) $source */
    public function __construct(private Redis|RedisCluster|Closure $source)
    {
        $this->process = getmypid();
        self::$first ??= $this->process;
        if (!$source instanceof Closure) { // it may have been given to another Locks before a fork
            self::$given ??= new WeakMap();
            $this->process = self::$given[$source] ??= $this->process;
        }
        $this->client = $source instanceof Closure ? null : $source;
        $this->connected = $source instanceof RedisCluster || $source instanceof Redis && $source->isConnected();
    }

    /**
     * In seconds. Before version 6, phpredis may reconnect between sending and reading, and then reads for ever. Where the source makes a new
     * connection, this retry is switched off; any other client gets a limit, and asks again.
     */
    public function longestWait(): float
    {
        return $this->source instanceof Redis && version_compare(phpversion('redis'), '6', '<') ? 300 : INF;
    }

    /**
     * @param ?float $within seconds for the answer; null for the client's own timeout, INF to wait for ever
     * @param ?int $database the lock's database: the one that is selected at the first command
     */
    public function send(array $words, ?float $within = null, ?int &$database = null): mixed
    {
        try {
            $client = $this->client();
        } catch (RedisException | RedisClusterException $error) {
            throw $this->lost($error);
        }
        if ($client instanceof Redis && $client->getMode() !== Redis::ATOMIC) {
            throw new InvalidArgumentException('this client is in MULTI or in a pipeline: locks need a client of their own then');
        }
        $first = null;
        foreach ($words as $at => $word) {
            if ($word instanceof Key) {
                $words[$at] = $client->_prefix($word->name);
                $first ??= $words[$at];
            }
        }
        $usual = (float) $client->getOption(Redis::OPT_READ_TIMEOUT);
        $wanted = $within === null ? $usual : (is_infinite($within) ? -1.0 : max(0.001, $within));
        $client->clearLastError();
        $reply = false;
        try {
            if ($wanted !== $usual) {
                $client->setOption(Redis::OPT_READ_TIMEOUT, $wanted);
            }
            if ($client instanceof RedisCluster) {
                $reply = $client->rawCommand($first, ...$words);
            } else {
                $selected = $this->reselect($client);
                $database ??= $selected;
                $database === $selected || $client->select($database);
                $reply = $client->rawCommand(...$words);
            }
        } catch (RedisException | RedisClusterException $error) {
            if (!preg_match('/^[A-Z]{2,}\b/', $error->getMessage())) { // not an error of the server
                $this->close(); // otherwise, the next command would read the late answer
                throw $this->lost($error);
            }
        } finally {
            $said = $reply === false ? $client->getLastError() : null; // another command would clear it
            if (!$this->closed && $database !== ($selected ?? $database)) {
                $client->select($selected);
            }
            if ($wanted !== $usual && $this->client !== null) {
                // 0 stood for PHP's default when it connected; now it would mean no time at all.
                $client->setOption(Redis::OPT_READ_TIMEOUT, $usual ?: (float) ini_get('default_socket_timeout'));
            }
        }
        if ($said === null) {
            return $reply === [] ? null : $reply; // an empty list stands for null, unless OPT_NULL_MULTIBULK_AS_NULL is set
        }
        $client->clearLastError();
        $follows = $client instanceof RedisCluster || !str_starts_with($said, 'MOVED');
        if ($follows && array_filter(self::PASSING, fn(string $each) => str_starts_with($said, $each)) !== []) {
            in_array(strtok($said, ' '), self::REPLACED, true) && $this->close();
            throw new ConnectionLost($said);
        }
        throw new Refused($said);
    }

    /** The exception for a lost connection. If connecting failed, this is the client's own error: nobody waits for such a server. */
    private function lost(RedisException|RedisClusterException $error): Throwable
    {
        return $this->connected ? new ConnectionLost($error->getMessage(), previous: $error) : $error;
    }

    private function client(): Redis|RedisCluster
    {
        if ($this->process !== getmypid()) {
            if (!$this->source instanceof Closure) {
                throw new InvalidArgumentException('after a fork, a process needs a connection of its own: give Locks a function that connects');
            }
            self::$inherited[] = $this->client;
            [$this->client, $this->process, $this->connected] = [null, getmypid(), false];
        }
        if ($this->client === null) {
            $this->client = $this->process === self::$first ? ($this->source)() : $this->apart($this->source);
            $this->connected = true;
            if ($this->client instanceof Redis) {
                $this->client->setOption(Redis::OPT_MAX_RETRIES, 0); // see longestWait()
            }
        }
        return $this->client;
    }

    /**
     * Connects in a child. phpredis may find the parent's connection in its pool, or by its address. So this connects where the parent has no
     * connection: otherwise AUTH would be sent over the parent's, before that is recognised.
     */
    private function apart(Closure $connect): Redis|RedisCluster
    {
        $setting = 'redis.pconnect.pooling_enabled';
        $before = get_resources();
        $pooled = ini_set($setting, ini_get($setting) ? '0' : '1');
        try {
            $client = $connect();
        } finally {
            ini_set($setting, (string) $pooled);
        }
        $made = fn(string $kind) => array_diff_key(get_resources($kind), $before) !== [];
        if ($made('persistent stream') || !$made('stream') && $client instanceof Redis && get_resources('persistent stream') !== []) {
            $made('persistent stream') ? $client->close() : self::$inherited[] = $client;
            throw new InvalidArgumentException('after a fork, a persistent connection can be the parent\'s: connect with connect, not pconnect');
        }
        return $client;
    }

    /** Selects the database again: phpredis 5.3 forgets it when it reconnects. Returns the selected database. */
    private function reselect(Redis $client): int
    {
        if ($this->closed && $this->database !== 0) {
            $client->select($this->database);
        }
        $this->closed = false;
        return $this->database = $client->getDbNum() ?: 0;
    }

    private function close(): void
    {
        try {
            $this->client?->close();
        } catch (RedisException | RedisClusterException) { // the connection was broken before
        }
        $this->closed = true;
        if ($this->source instanceof Closure) {
            $this->client = null;
        }
    }
}
