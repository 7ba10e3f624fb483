<?php

declare(strict_types=1);

// Tests Laravel's locks with this store: the same promises as in Laravel's own tests of Redis locks, but newly written.

use Illuminate\Bus\UniqueLock;
use Illuminate\Cache\Repository;
use Illuminate\Container\Container;
use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Contracts\Queue\ShouldBeUnique;
use Illuminate\Redis\RedisManager;
use Redislock\Laravel\LockStore;

foreach (['Cache', 'Redis', 'Bus', 'Container'] as $part) {
    require_once "Illuminate/$part/autoload.php";
}

/** The cache of an application with a key prefix, which Laravel sets, too. */
function cache(array $options = []): Repository
{
    $server = ['host' => '127.0.0.1', 'port' => (int) getenv('REDIS_PORT'), 'database' => 0];
    $redis = new RedisManager(new Container(), 'phpredis', ['options' => $options + ['prefix' => 'app:'], 'default' => $server]);
    return new Repository(new LockStore($redis, 'cache'));
}

final class Report implements ShouldBeUnique
{
    public int $uniqueFor = 0;

    public function uniqueId(): string
    {
        return '42';
    }
}

return [
    'Laravel: acquired and released' => function (): void {
        $cache = cache();
        $lock = $cache->lock('door', 10);
        same('acquired', $lock->get(), true);
        same('not by another one', cache()->lock('door', 10)->get(), false);
        same('nor again', $lock->get(), false);
        same('with both prefixes', info(connect(), 'app:cache:door')['owner'], $lock->owner());
        same('released', $lock->release(), true);
        same('once', $lock->release(), false);
        same('again', $cache->lock('door', 10)->get(), true);
        $cache->lock('door')->forceRelease();
        same('by force', info(connect(), 'app:cache:door'), []);
        $lock->forceRelease(); // no error, although the lock is free
    },

    'Laravel: serializers and compressors do not touch a lock' => function (): void {
        foreach ([Redis::SERIALIZER_PHP, Redis::SERIALIZER_JSON, Redis::SERIALIZER_IGBINARY] as $serializer) {
            $lock = cache(['serializer' => $serializer])->lock('door', 10);
            same('acquired', [$lock->get(), cache()->lock('door', 10)->get(), $lock->release()], [true, false, true]);
        }
    },

    'Laravel: locks have a connection of their own' => function (): void {
        $server = ['host' => '127.0.0.1', 'port' => (int) getenv('REDIS_PORT')];
        $redis = new RedisManager(new Container(), 'phpredis',
            ['default' => ['database' => 0] + $server, 'cache' => ['database' => 1] + $server]);
        $cache = new Repository(LockStore::of($redis, ['connection' => 'cache', 'lock_connection' => 'default'], 'app'));
        $cache->put('page', 'text', 60);
        same('acquired', $cache->lock('door', 10)->get(), true);
        $cache->getStore()->flush(); // what `artisan cache:clear` does
        same('the cache is empty', $cache->get('page'), null);
        same('the lock is held', info(connect(), 'app:door')['holders'], 1);
        $other = connect();
        $other->select(1);
        LockStore::of($redis, ['connection' => 'cache', 'prefix' => 'shop'], 'app')->lock('door', 10)->get();
        same('one for both, and a prefix of its own', info($other, 'shop:door')['holders'], 1);
    },

    'Laravel: blocks for seconds' => function (): void {
        $cache = cache();
        same('the result', $cache->lock('door', 10)->block(1, fn() => 'taylor'), 'taylor');
        same('released', info(connect(), 'app:cache:door'), []);
        same('without a callback', $cache->lock('door', 600)->block(1), true);
        $begin = microtime(true);
        throws('in vain', LockTimeoutException::class, fn() => cache()->lock('door', 10)->block(1));
        ok('after a second', microtime(true) - $begin >= 1);
        throws('at once', LockTimeoutException::class, fn() => cache()->lock('door', 10)->block(0));
    },

    'Laravel: a callback that fails releases' => function (): void {
        foreach ([fn(callable $fail) => cache()->lock('door', 10)->block(2, $fail), fn(callable $fail) => cache()->lock('door', 10)->get($fail)] as $run) {
            throws('the failure', DomainException::class, fn() => $run(fn() => throw new DomainException()));
            same('released', info(connect(), 'app:cache:door'), []);
        }
    },

    'Laravel: a lock that lapsed is not released for the next owner' => function (): void {
        $first = cache()->lock('door', 1);
        $first->get();
        $second = cache()->lock('door', 10);
        same('the next one waits for it', $second->block(5), true);
        same('too late', $first->release(), false);
        same('still held', cache()->lock('door')->get(), false);
        same('its own', $second->release(), true);
    },

    'Laravel: released by its owner in another process' => function (): void {
        $lock = cache()->lock('door', 10);
        $lock->get();
        Workers::start(function () use ($lock): void {
            same('not by others', cache()->restoreLock('door', 'other')->release(), false);
            same('by the owner', cache()->restoreLock('door', $lock->owner())->release(), true);
        });
        Workers::join();
        same('free', cache()->lock('door')->get(), true);
        same('0 seconds: no end', connect()->rawCommand('PTTL', 'app:cache:door') > 99 * 365 * 86_400_000, true);
    },

    'Laravel: a unique job is locked by who dispatches it, and outlives that process' => function (): void {
        $dispatch = fn() => (new UniqueLock(cache()))->acquire(new Report());
        Workers::start(fn() => same('dispatched', $dispatch(), true));
        Workers::join();
        same('not twice', $dispatch(), false);
        $worker = cache()->lock('laravel_unique_job:' . Report::class . '42');
        $worker->forceRelease(); // the queue's worker does this when the job has ended
        same('then again', $dispatch(), true);
    },

    'Laravel: waits are served in order, not by polling' => function (): void {
        $other = connect();
        $lock = cache()->lock('door', 30);
        $lock->get();
        for ($at = 0; $at < 5; $at++) {
            Workers::start(function () use ($at): void {
                cache()->lock('door', 30)->block(30, fn() => connect()->rPush('served', (string) $at));
            });
            waitFor('it waits', fn() => waiters($other, 'app:cache:door') === $at + 1);
        }
        $lock->release();
        Workers::join();
        same('in order', $other->lRange('served', 0, -1), ['0', '1', '2', '3', '4']);
    },
];
