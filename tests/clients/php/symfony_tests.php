<?php

declare(strict_types=1);

// Tests Symfony's lock component with this store: the same promises as in Symfony's own tests of stores, but newly written.

use Redislock\Symfony\LockStore;
use Symfony\Component\Lock\Exception\{InvalidTtlException, LockConflictedException, LockExpiredException, LockReleasingException, UnserializableKeyException};
use Symfony\Component\Lock\{Key, LockFactory};

require_once 'Symfony/Component/Lock/autoload.php';

$store = fn(mixed ...$options): LockStore => new LockStore(connect(), ...$options);
$conflict = fn(callable $save) => throws('a conflict', LockConflictedException::class, $save);

return [
    'Symfony: save, exists, delete' => function () use ($store): void {
        [$store, $key] = [$store(), new Key('door')];
        same('not yet', $store->exists($key), false);
        $store->save($key);
        same('saved', $store->exists($key), true);
        $store->save($key);
        same('saved twice', $store->exists($key), true);
        $store->delete($key);
        same('deleted', $store->exists($key), false);
        $store->delete($key); // a second delete changes nothing
    },

    'Symfony: other resources, other keys' => function () use ($store, $conflict): void {
        [$store, $first, $second, $other] = [$store(), new Key('door'), new Key('door'), new Key('window')];
        $store->save($first);
        $store->save($other);
        same('each', [$store->exists($first), $store->exists($second), $store->exists($other)], [true, false, true]);
        $conflict(fn() => $store->save($second));
        $store->delete($second);
        same('a key deletes only its own', $store->exists($first), true);
        $store->delete($first);
        $store->save($second);
        same('the next one', [$store->exists($first), $store->exists($second)], [false, true]);
    },

    'Symfony: expiration' => function () use ($store): void {
        [$store, $key] = [$store(), new Key('door')];
        $store->save($key);
        $store->putOffExpiration($key, 0.1);
        ok('its lifetime', $key->getRemainingLifetime() <= 0.1);
        waitFor('it expires', fn() => !$store->exists($key));
        throws('too late', LockConflictedException::class, fn() => $store->putOffExpiration($key, 1));
        $store->save($again = new Key('door'));
        $store->putOffExpiration($again, 500);
        ok('put off', connect()->rawCommand('PTTL', 'door') > 400_000);
        throws('at once', LockExpiredException::class, fn() => $store->putOffExpiration($again, 0.000001));
        same('an expired lock is cleaned', $store->exists($again), false);
        throws('a wrong TTL', InvalidTtlException::class, fn() => $store->putOffExpiration($again, -1));
        throws('a wrong initial TTL', InvalidTtlException::class, fn() => new LockStore(connect(), 0));
    },

    'Symfony: shared, reading first, and writing first' => function () use ($store, $conflict): void {
        [$store, $writer] = [$store(), new Key('book')];
        $readers = [new Key('book'), new Key('book'), new Key('book')];
        array_map($store->saveRead(...), $readers);
        same('all read', array_map($store->exists(...), $readers), [true, true, true]);
        foreach ($readers as $reader) {
            $conflict(fn() => $store->save($writer));
            $store->delete($reader);
        }
        $store->save($writer);
        $conflict(fn() => $store->saveRead($readers[0]));
        $store->delete($writer);
        $store->saveRead($readers[0]);
        same('reads', $store->exists($readers[0]), true);
    },

    'Symfony: promoted, if nobody else reads' => function () use ($store, $conflict): void {
        [$store, $one, $two] = [$store(), new Key('book'), new Key('book')];
        $store->saveRead($one);
        $store->saveRead($two);
        $conflict(fn() => $store->save($one));
        same('both read on', [$store->exists($one), $store->exists($two)], [true, true]);
        $store->delete($two);
        $store->save($one);
        $conflict(fn() => $store->saveRead($two));
        $store->delete($one);
        $store->saveRead($two);
    },

    'Symfony: demoted, so that others read too' => function () use ($store): void {
        [$store, $one, $two] = [$store(), new Key('book'), new Key('book')];
        $store->save($one);
        $store->saveRead($one);
        $store->saveRead($two);
        same('both', [$store->exists($one), $store->exists($two)], [true, true]);
    },

    'Symfony: a wait is served by the server, in order' => function () use ($store): void {
        $factory = new LockFactory($store());
        $other = connect();
        $lock = $factory->createLock('door', 30);
        same('acquired', $lock->acquire(), true);
        foreach (['first', 'second'] as $at => $name) {
            Workers::start(function () use ($name): void {
                $redis = connect();
                $lock = (new LockFactory(new LockStore(connect())))->createLock('door', 30);
                $lock->acquire(true);
                $redis->rPush('served', $name);
                $lock->release();
            });
            waitFor('it waits', fn() => waiters($other, 'door') === $at + 1);
        }
        same('held', $lock->isAcquired(), true);
        $lock->release();
        Workers::join();
        same('in order', $other->lRange('served', 0, -1), ['first', 'second']);
        $reader = $factory->createLock('book', 30);
        same('read', $reader->acquireRead(true), true);
        same('not written', $factory->createLock('book', 30)->acquire(), false);
        unset($reader);
        same('released when the object goes', info($other, 'book'), []);
    },

    'Symfony: a key goes on in another process' => function () use ($store): void {
        $key = new Key('door');
        $lock = (new LockFactory($store()))->createLockFromKey($key, 30, false);
        $lock->acquire();
        Workers::start(function () use ($key): void {
            $lock = (new LockFactory(new LockStore(connect())))->createLockFromKey(unserialize(serialize($key)), 30);
            same('held', $lock->isAcquired(), true);
            $lock->refresh();
            $lock->release();
        });
        Workers::join();
        same('released there', $lock->isAcquired(), false);
    },

    'Symfony: a lock stays in its database, and its end waits for a server for a second' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $lock = (new LockFactory(new LockStore($redis)))->createLock('door', 600);
        $lock->acquire(true);
        $redis->select(3);
        $lock->refresh();
        $lock->release();
        same('free', $other->dbSize(), 0);
        $lock->acquire(true);
        $other->rawCommand('CLIENT', 'PAUSE', 600_000, 'WRITE');
        throws('no answer', LockReleasingException::class, $lock->release(...));
        $other->rawCommand('CLIENT', 'UNPAUSE');
        $lock->release();
    },

    'Symfony: a connection that was cut is made anew' => function (): void {
        $other = connect();
        foreach ([fn() => connect(), connect()] as $source) {
            $lock = (new LockFactory(new LockStore($source)))->createLock('door', 600);
            foreach (['acquire', 'isAcquired', 'refresh', 'release'] as $step) {
                $lock->$step();
                cut($other);
            }
            same('free', info($other, 'door'), []);
        }
    },

    'Symfony: a child after a fork does not release what its parent holds' => function (): void {
        $lock = (new LockFactory(new LockStore(fn() => connect())))->createLock('door', 30);
        $lock->acquire();
        Workers::start(fn() => same('not the child\'s', $lock->isAcquired(), false)); // the end of the child frees its copy of the lock
        Workers::join();
        same('still held', $lock->isAcquired(), true);
    },

    'Symfony: a session ends with its connection, and not before' => function () use ($store): void {
        [$other, $key] = [connect(), new Key('door')];
        $worker = Workers::start(function (): void {
            $lock = (new LockFactory(new LockStore(connect(), 1.0, session: true)))->createLock('door', 1.0);
            $lock->acquire();
            same('no end', [$lock->isExpired(), $lock->getRemainingLifetime()], [false, null]);
            sleep(600);
        });
        $begin = microtime(true);
        waitFor('held', fn() => info($other, 'door') !== []);
        waitFor('two leases', fn() => microtime(true) > $begin + 2);
        same('still', info($other, 'door')['session'], 1);
        posix_kill($worker, SIGKILL);
        Workers::ended($worker);
        waitFor('it ends', fn() => info($other, 'door') === []);
        $store = $store(session: true);
        $store->save($key);
        throws('it stays in its process', UnserializableKeyException::class, fn() => serialize($key));
    },
];
