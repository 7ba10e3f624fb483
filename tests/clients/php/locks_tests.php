<?php

declare(strict_types=1);

// Tests the package: work under a lock, losses, options, forks, and the user's own connection.

use Redislock\{ConnectionLost, Held, LockError, LockLost, Locks, NotAcquired};

return [
    'the lock is held for the work and free after it' => function (): void {
        [$locks, $other] = [new Locks(connect()), connect()];
        $answer = $locks->withLock('door', function (Held $held) use ($other): string {
            same('the fence', info($other, 'door')['fence'], $held->fence());
            ok("the owner is a UUID: {$held->owner()}", preg_match('/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/', $held->owner()) === 1);
            same('not lost', $held->lost(), null);
            return 'done';
        });
        same('the result', $answer, 'done');
        $calls = fn(string $verb) => calls($other, $verb);
        same('what it costs', array_map($calls, ['acquire', 'release', 'extend', 'leave']), [1, 1, 0, 0]);
        same('free', info($other, 'door'), []);
        $held = $locks->acquire(['door', 'window'], lease: 10);
        same('extended', $held->extend(60), 60.0);
        unset($held);
        same('free when the object goes', [info($other, 'door'), info($other, 'window')], [[], []]);
    },

    'exit in the work gives the lock back' => function (): void {
        Workers::start(fn() => (new Locks(connect()))->withLock('exit', fn() => exit(0)));
        Workers::join();
        same('free', info(connect(), 'exit'), []);
    },

    'an exception of the work is the one to see' => function (): void {
        [$locks, $other] = [new Locks(connect()), connect()];
        throws('thrown', DomainException::class, fn() => $locks->withLock('thrown', fn() => throw new DomainException()));
        same('given back', info($other, 'thrown'), []);
        throws('thrown after the lock was lost', DomainException::class, fn() => $locks->withLock('thrown', function () use ($other): never {
            same('broken', $other->rawCommand('LOCK.BREAK', 'thrown'), 1);
            throw new DomainException();
        }));
    },

    'a lost lock does not go unnoticed' => function (): void {
        [$locks, $other] = [new Locks(connect()), connect()];
        $broken = fn() => $other->rawCommand('LOCK.BREAK', 'lost');
        throws('by an operator', LockLost::class, fn() => $locks->withLock('lost', $broken));
        $held = $locks->acquire('lost', lease: 3.0);
        $other->rawCommand('LOCK.BREAK', 'lost');
        $lost = throws('keep() finds out', LockLost::class, fn() => waitFor('the loss', fn() => $held->keep()));
        same('why', $lost->getMessage(), 'lost: NOTHELD the lock is not held by this owner: it is free');
        throws('and so do all after it', LockLost::class, $held->release(...));
        $held = $locks->acquire('text', lease: 3.0);
        $other->set('text', '');
        throws('its key is something else', LockLost::class, fn() => waitFor('the loss', fn() => $held->keep()));
    },

    'a renewal that fails is sent again after a pause; a refused release is told' => function (): void {
        [$locks, $other] = [new Locks(connect(...)), connect()];
        $held = $locks->acquire('door', lease: 15.0);
        $other->rawCommand('REPLICAOF', '127.0.0.1', 1);
        waitFor('the renewal', fn() => $held->keep() || calls($other, 'extend') > 0);
        [$before, $begin] = [calls($other, 'extend'), microtime(true)];
        waitFor('three more', fn() => $held->keep() || calls($other, 'extend') >= $before + 3); // each is sent twice
        ok('with pauses', microtime(true) - $begin >= 1.9);
        $other->rawCommand('REPLICAOF', 'NO', 'ONE');
        waitFor('it is renewed', fn() => $held->keep() || $other->pttl('door') > 14_000);
        $other->rawCommand('ACL', 'SETUSER', 'default', '-lock.release');
        $refused = throws('refused', LockError::class, $held->release(...));
        $other->rawCommand('ACL', 'SETUSER', 'default', '+lock.release');
        ok('why', stripos($refused->getMessage(), 'no permissions') !== false);
    },

    'keep() asks when it is due, and without it a lease ends' => function (): void {
        [$locks, $other] = [new Locks(connect()), connect()];
        $held = $locks->acquire('kept', lease: 600.0);
        for ($turn = 0; $turn < 1000; $turn++) {
            $held->keep();
        }
        ok('not for each call', !isset($other->info('commandstats')['cmdstat_lock.extend']));
        [$session, $left] = [$locks->acquire('session', lease: 1.0, session: true), $locks->acquire('left', lease: 1.5)];
        $bare = $locks->acquire('bare', lease: 1.5, renew: false);
        throws('never renewed', LockLost::class, fn() => waitFor('its end', fn() => $bare->keep()));
        waitFor('it lapses', fn() => info($other, 'left') === []);
        same('a session goes on', info($other, 'session')['fence'], $session->fence());
        same('as its holder knows', $session->lost(), null);
        throws('told by its own clock', LockLost::class, $left->release(...));
    },

    'a session on a new connection is noticed' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $held = (new Locks($redis))->acquire('session', lease: 1.0, session: true);
        $other->rawCommand('CLIENT', 'KILL', 'ID', info($other, 'session')['client-id']);
        waitFor('it ends', fn() => info($other, 'session') === []);
        throws('the loss', LockLost::class, fn() => waitFor('keep() asks', fn() => $held->keep()));
        same('and nothing stays held', info($other, 'session'), []);
        $again = (new Locks($redis))->acquire('again', lease: 1.0, session: true, owner: 'alice');
        $other->rawCommand('LOCK.ACQUIRE', 'again', 'OWNER', 'alice', 'PX', 1000, 'ONCE', 'SESSION'); // moves the session to that connection
        $own = $redis->rawCommand('CLIENT', 'ID');
        waitFor('keep() has it hang on this one again', fn() => $again->keep() || info($other, 'again')['client-id'] === $own);
    },

    'after a fork, the child connects anew and holds nothing' => function (): void {
        $other = connect();
        $locks = new Locks(fn() => connect());
        $held = $locks->acquire('door');
        Workers::start(function () use ($locks, $held): void {
            $held->release();
            unset($held);
            same('it is the parent\'s', $locks->tryAcquire('door'), null);
            $locks->withLock('window', fn() => null);
        });
        Workers::join();
        same('still held', info($other, 'door')['fence'], $held->fence());
        $held->release();
        $plain = new Locks(connect());
        $plain->withLock('door', fn() => null);
        Workers::start(fn() => throws('a connection of the parent', InvalidArgumentException::class, fn() => $plain->acquire('door')));
        Workers::join();
    },

    'the user\'s connection stays as it was' => function (): void {
        $redis = connect();
        $redis->setOption(Redis::OPT_PREFIX, 'app:');
        $redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
        $redis->setOption(Redis::OPT_COMPRESSION, defined('Redis::COMPRESSION_LZF') ? Redis::COMPRESSION_LZF : Redis::COMPRESSION_NONE);
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 7);
        $redis->select(3);
        $locks = new Locks($redis);
        $locks->withLock('mine', fn() => same('with the prefix', $redis->rawCommand('EXISTS', 'app:mine'), 1));
        same('the read timeout', (float) $redis->getOption(Redis::OPT_READ_TIMEOUT), 7.0);
        $other = connect();
        $other->select(3);
        $other->rawCommand('LOCK.ACQUIRE', 'app:mine', 'OWNER', 'other', 'PX', 60_000);
        $parent = getmypid();
        Workers::start(function () use ($parent): void {
            $own = connect();
            $own->select(3);
            waitFor('it waits', fn() => waiters($own, 'app:mine') === 1);
            // phpredis 5.3 fails if the connection ends before phpredis waits for the answer.
            waitFor('it reads', fn() => str_contains(file_get_contents("/proc/$parent/stat"), ') S '));
            $queue = pairs($own->rawCommand('LOCK.INFO', 'app:mine', 'FULL'))['queue'];
            same('killed', $own->rawCommand('CLIENT', 'KILL', 'ID', pairs($queue[0])['client-id']), 1);
            waitFor('it waits again, in the same database', fn() => waiters($own, 'app:mine') === 1);
            $own->rawCommand('LOCK.RELEASE', 'app:mine', 'other');
        });
        $locks->withLock('mine', fn() => null);
        Workers::join();
        $redis->multi();
        throws('not in MULTI', InvalidArgumentException::class, fn() => $locks->acquire('mine'));
        $redis->discard();
    },

    'a connection that ends between sending and reading' => function (): void {
        $server = stream_socket_server('tcp://127.0.0.1:0');
        $port = (int) parse_url('tcp://' . stream_socket_get_name($server, false), PHP_URL_PORT);
        Workers::start(function () use ($server): void {
            $client = stream_socket_accept($server);
            fread($client, 1);
            stream_socket_shutdown($client, STREAM_SHUT_WR); // read the rest only now, so that the server can send everything
            while (!feof($client)) {
                fread($client, 1 << 20);
            }
        });
        $ports = [$port];
        $locks = new Locks(function () use (&$ports): Redis {
            $redis = new Redis();
            $redis->connect('127.0.0.1', array_shift($ports) ?? (int) getenv('REDIS_PORT'));
            return $redis;
        });
        // A command larger than the socket buffers. If the package waited for its answer before asking again, it would hang.
        $held = $locks->acquire(str_repeat('long', 3 << 20), wait: 3600.0);
        Workers::join();
    },

    'connections that have ended are made anew' => function (): void {
        $other = connect();
        foreach ([new Locks(connect(...)), new Locks(connect())] as $locks) {
            $kill = fn() => cut($other);
            $held = $locks->acquire('door');
            $kill();
            ok('extended', $held->extend(20) > 19);
            $kill();
            $held->release();
            $kill();
            $locks->tryAcquire('door')->release();
        }
    },

    'a release that could not be sent is sent before the next lock is asked for' => function (): void {
        [$locks, $other] = [new Locks(connect(...)), connect()];
        $held = $locks->acquire('door', lease: 600);
        $other->rawCommand('CLIENT', 'PAUSE', 600_000, 'WRITE');
        throws('no answer', ConnectionLost::class, $held->release(...));
        waitFor('the server has dropped it', fn() => !str_contains($other->rawCommand('CLIENT', 'LIST'), 'cmd=lock.release'));
        $other->rawCommand('CLIENT', 'UNPAUSE');
        same('so it stays held', info($other, 'door')['fence'], $held->fence());
        $again = $locks->tryAcquire('door');
        ok('a new grant', $again->fence() > $held->fence());
        $again->release();
        same('free', info($other, 'door'), []);
    },

    'a read timeout: the wait leaves the queue, and no late answer is read' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $locks = new Locks($redis);
        $other->rawCommand('LOCK.ACQUIRE', 'slow', 'OWNER', 'other', 'PX', 60_000);
        $other->rawCommand('CLIENT', 'PAUSE', 600_000, 'WRITE'); // so the server ends the wait too late, and the client has to
        $error = throws('in vain', NotAcquired::class, fn() => $locks->acquire('slow', wait: 0.1));
        ok('why', str_contains($error->getMessage(), 'could not ask'));
        same('the next reply is the right one', $redis->rawCommand('ECHO', 'hello'), 'hello');
        $other->rawCommand('CLIENT', 'UNPAUSE');
        waitFor('it has left', fn() => waiters($other, 'slow') === 0);
    },

    'no server; bad input' => function (): void {
        [$locks, $nowhere] = [new Locks(connect()), new Locks(fn() => (new Redis())->connect('127.0.0.1', 1))];
        throws('no server', RedisException::class, fn() => $nowhere->acquire('door'));
        foreach ([['lease' => PHP_INT_MAX], ['wait' => NAN], ['wait' => PHP_INT_MAX], ['sync' => [1]]] as $options) {
            throws('bad input', InvalidArgumentException::class, fn() => $locks->acquire('door', ...$options));
        }
        foreach ([['a', 'a'], ['a', 5]] as $keys) {
            throws('bad keys', InvalidArgumentException::class, fn() => $locks->acquire($keys));
        }
    },

    'a cluster, with the package' => function (): void {
        $url = parse_url(getenv('CLUSTER_URL'));
        $cluster = new RedisCluster(null, ["$url[host]:$url[port]"], 5, 2);
        $cluster->setOption(Redis::OPT_PREFIX, 'app:');
        $locks = new Locks($cluster);
        $locks->withLock(['{a}1', '{a}2'], fn(Held $held) => throws('an error', NotAcquired::class, fn() => $locks->acquire('{a}2', wait: 0.05)));
        same('free', $cluster->rawCommand('app:{a}1', 'LOCK.INFO', 'app:{a}1'), []);
        $lost = fn() => $locks->withLock('{a}1', fn() => $cluster->rawCommand('app:{a}1', 'DEL', 'app:{a}1'));
        throws('NOTHELD', LockLost::class, $lost);
        throws('an error of the server', LockError::class, fn() => $locks->acquire('{a}1', limit: 5000));
    },
];
