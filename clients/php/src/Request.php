<?php

declare(strict_types=1);

namespace Redislock;

use InvalidArgumentException;

/** A request for one lock or several, as words of the server's commands. Bad input is refused here, before anything is sent. */
final class Request
{
    /** The longest time, in seconds: a JavaScript client can't read more milliseconds exactly. */
    private const MOST = 9e12;

    public readonly string $owner;
    public readonly bool $named;
    /** The database of the lock: the one that was selected at the first command. */
    public ?int $database = null;
    /** Whether the lock was held: after this, NOTHELD means a loss. */
    public bool $taken = false;
    /** Tells the observer, if there is one. */
    public ?Watch $watch = null;
    public readonly Mode $shape;
    private ?string $id = null;
    /** @var list<int|string> */
    private array $mode = [];
    /** @var list<int|string> */
    private array $sync = [];

    /**
     * @param list<string> $keys
     * @param ?float $wait seconds: null waits for ever, 0 asks once
     * @param ?float $lease seconds: how long the lock lasts without a renewal
     * @param ?array{int, float} $sync how many replicas have to confirm the lock, and within how many seconds
     */
    public function __construct(
        public readonly array $keys,
        public readonly ?float $wait = null,
        public ?float $lease = null,
        bool $shared = false,
        ?int $limit = null,
        ?int $slot = null,
        ?string $label = null,
        bool $detect = false,
        ?array $sync = null,
        public readonly bool $session = false,
        ?string $owner = null,
        ?float $maxHold = null,
        public readonly bool $renew = true,
    ) {
        $texts = array_filter($keys, 'is_string');
        if ($keys === [] || $texts !== $keys || count($keys) > 1 && count(array_unique($texts)) < count($keys)) {
            throw new InvalidArgumentException('a lock needs a key, and each key once');
        }
        if ($shared && $limit !== null) {
            throw new InvalidArgumentException('shared and limit exclude each other');
        }
        if ($limit !== null && $limit < 1) {
            throw new InvalidArgumentException("limit must be at least 1: $limit");
        }
        if ($slot !== null && ($slot < 1 || $slot > ($limit ?? 0))) {
            throw new InvalidArgumentException("slot must be one of the numbers from 1 to limit: $slot");
        }
        if ($owner !== null && ($owner === '' || strlen($owner) > 128)) {
            throw new InvalidArgumentException('owner must be 1 to 128 bytes long');
        }
        if ($wait !== null && !($wait >= 0 && $wait <= self::MOST)) {
            throw new InvalidArgumentException("wait must be null, or seconds from 0 to 9e12: $wait");
        }
        $lease === null || self::ms('lease', $lease);
        if ($sync !== null) {
            if (count($sync) !== 2 || !is_int($sync[0] ?? null) || $sync[0] < 1) {
                throw new InvalidArgumentException('sync must be [replicas, seconds], with at least one replica');
            }
            $this->sync = ['SYNC', $sync[0], self::ms('sync', (float) $sync[1])];
        }
        $this->shape = $shared ? Mode::Shared : ($limit === null ? Mode::Exclusive : Mode::Limit);
        $this->named = $owner !== null;
        $this->owner = $owner ?? self::uuid();
        $this->mode = [
            ...$shared ? ['SHARED'] : [],
            ...$limit === null ? [] : ['LIMIT', $limit],
            ...$slot === null ? [] : ['SLOT', $slot],
            ...$session ? ['SESSION'] : [],
            ...$detect ? ['DETECT'] : [],
            ...$maxHold === null ? [] : ['MAXHOLD', self::ms('maxHold', $maxHold)],
            // By default, only a fresh owner gets a label: a re-entry without a label keeps that of the grant.
            ...$label === null && $this->named ? [] : ['LABEL', $label ?? self::process()],
        ];
    }

    /** A random UUID, in the spelling that the server can store in 16 bytes. */
    public static function uuid(): string
    {
        $bytes = random_bytes(16);
        $bytes[6] = $bytes[6] & "\x0f" | "\x40";
        $bytes[8] = $bytes[8] & "\x3f" | "\x80";
        return vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split(bin2hex($bytes), 4));
    }

    /** Host and process: the default label, for operators. */
    public static function process(): string
    {
        return substr(preg_replace('/[^A-Za-z0-9._-]/', '_', (string) gethostname()), 0, 64) . ':' . getmypid();
    }

    /** Seconds as whole milliseconds. */
    public static function ms(string $name, float $seconds): int
    {
        if (!($seconds >= 0.001 && $seconds <= self::MOST)) {
            throw new InvalidArgumentException("$name must be seconds from 0.001 to 9e12: $seconds");
        }
        return (int) ceil(round($seconds * 1000, 3));
    }

    /** Identifies the owner with its locks: requests that can share a grant have the same id. */
    public function id(): string
    {
        return $this->id ??= serialize([$this->owner, $this->keys]);
    }

    /** How many seconds replicas may take to confirm. */
    public function syncSeconds(): float
    {
        return ($this->sync[2] ?? 0) / 1000;
    }

    /** @param ?float $block in seconds: null asks once, INF waits for ever */
    public function acquire(?float $block): array
    {
        $wait = $block === null ? [] : ['BLOCK', is_infinite($block) ? 0 : max(1, (int) ceil($block * 1000))];
        return [...$this->command('ACQUIRE'), 'OWNER', $this->owner, ...$this->px(), 'ONCE', ...$wait, ...$this->mode, ...$this->sync];
    }

    /** @param list<int> $fences */
    public function extend(array $fences): array
    {
        return [...$this->command('EXTEND'), $this->owner, ...$this->px(), ...self::fence($fences), ...$this->sync];
    }

    /** @param list<int> $fences */
    public function release(array $fences): array
    {
        return [...$this->command('RELEASE'), $this->owner, ...self::fence($fences)];
    }

    public function __toString(): string
    {
        return implode(', ', $this->keys);
    }

    private function px(): array
    {
        return $this->lease === null ? [] : ['PX', self::ms('lease', $this->lease)];
    }

    /** Restricts a command to this grant. Locks that were entered again have different fences, so no FENCE can name them. */
    private static function fence(array $fences): array
    {
        return count($fences) === 1 || count(array_unique($fences)) === 1 ? ['FENCE', $fences[0]] : [];
    }

    /** The name of a command and its keys, which are marked, so that the connection can add its prefix to them. */
    private function command(string $verb): array
    {
        if (count($this->keys) === 1) {
            return ["LOCK.$verb", new Key($this->keys[0])];
        }
        return ["LOCK.M$verb", count($this->keys), ...array_map(fn(string $key) => new Key($key), $this->keys)];
    }
}

/** A key among the words of a command. */
final class Key
{
    public function __construct(public readonly string $name)
    {
    }
}
