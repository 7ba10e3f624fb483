<?php

declare(strict_types=1);

// Raw commands through phpredis, and the programs of its page. Run by ./run.

require __DIR__ . '/support.php';

const PROCESSES = 20;

$tests = [
    'a lock from its grant to its end' => function (): void {
        $redis = connect();
        [$owner, $fence, $holds, $lease] = $redis->rawCommand('LOCK.ACQUIRE', 'door', 'OWNER', 'alice', 'PX', 30_000);
        same('a grant', [$owner, $holds, $lease], ['alice', 1, 30_000]);
        ok('a fence of 16 digits is exact', $fence > 10 ** 15 && (string) $fence === $redis->eval(
            "return string.format('%.0f', redis.call('LOCK.INFO', 'door')[4])", [], 0));
        same('a re-entry', array_slice($redis->rawCommand('LOCK.ACQUIRE', 'door', 'OWNER', 'alice'), 0, 3), ['alice', $fence, 2]);
        same('once', $redis->rawCommand('LOCK.ACQUIRE', 'door', 'OWNER', 'alice', 'PX', 40_000, 'ONCE'), ['alice', $fence, 2, 40_000]);
        same('an extension', $redis->rawCommand('LOCK.EXTEND', 'door', 'alice', 'EX', 60, 'FENCE', $fence), 60_000);
        same('someone else holds it', $redis->rawCommand('LOCK.ACQUIRE', 'door', 'OWNER', 'bob'), []);
        same('nor is that an error', $redis->getLastError(), null);
        $redis->setOption(Redis::OPT_NULL_MULTIBULK_AS_NULL, true);
        same('null', $redis->rawCommand('LOCK.ACQUIRE', 'door', 'OWNER', 'bob'), null);
        $info = info($redis, 'door');
        same('info', array_keys($info), ['owner', 'fence', 'holds', 'lease-ms', 'held-ms', 'session', 'client-id', 'mode', 'limit', 'holders', 'waiters']);
        same('its values', [$info['owner'], $info['fence'], $info['holds']], ['alice', $fence, 2]);
        same('a release', $redis->rawCommand('LOCK.RELEASE', 'door', 'alice', 'FENCE', $fence), 1);
        same('all holds', $redis->rawCommand('LOCK.RELEASE', 'door', 'alice', 'ALL'), 0);
        same('a free lock', $redis->rawCommand('LOCK.INFO', 'door'), null);
        $redis->rawCommand('LOCK.ACQUIRE', 'door', 'OWNER', 'carol');
        same('a break', $redis->rawCommand('LOCK.BREAK', 'door'), 1);
    },

    'errors: some are false, some are thrown' => function (): void {
        $redis = connect();
        $redis->set('word', 'x');
        same('a syntax error', $redis->rawCommand('LOCK.ACQUIRE', 'door', 'OWNED'), false);
        same('its message', $redis->getLastError(), 'ERR syntax error');
        same('a wrong type', $redis->rawCommand('LOCK.ACQUIRE', 'word'), false);
        ok('its message', str_starts_with($redis->getLastError(), 'WRONGTYPE '));
        same('a success', $redis->rawCommand('LOCK.BREAK', 'door'), 0);
        ok('keeps the last message', str_starts_with($redis->getLastError(), 'WRONGTYPE '));
        $redis->clearLastError();
        $connection = $redis->rawCommand('CLIENT', 'ID');
        $refused = refused(fn() => $redis->rawCommand('LOCK.RELEASE', 'door', 'alice'));
        ok('NOTHELD is thrown', str_starts_with($refused, 'NOTHELD '));
        same('and the last message', $redis->getLastError(), $refused);
        same('the connection stays', $redis->rawCommand('CLIENT', 'ID'), $connection);

        same('a command of the page', refused(fn() => lockCommand($redis, 'LOCK.ACQUIRE', 'door', 'OWNED')), 'ERR syntax error');
        same('after a failure', lockCommand($redis, 'LOCK.BREAK', 'door'), 0);
        ok('NOTHELD', str_starts_with(refused(fn() => lockCommand($redis, 'LOCK.RELEASE', 'door', 'alice')), 'NOTHELD '));
        same('the connection stays', $redis->rawCommand('CLIENT', 'ID'), $connection);
    },

    'words are sent as they are' => function (): void {
        $redis = connect();
        $redis->setOption(Redis::OPT_PREFIX, 'app:');
        $redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
        $redis->rawCommand('LOCK.ACQUIRE', 'plain', 'OWNER', 'alice');
        same('no prefix', $redis->rawCommand('EXISTS', 'plain'), 1);
        $grant = $redis->rawCommand('LOCK.ACQUIRE', $redis->_prefix('mine'), 'OWNER', 'alice');
        same('no serializer', $grant[0], 'alice');
        same('with _prefix', $redis->rawCommand('EXISTS', 'app:mine'), 1);
    },

    'the lock is held for the body and free after it' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $answer = withLock($redis, 'body', function (int $fence) use ($other): string {
            same('held', $other->rawCommand('LOCK.ACQUIRE', 'body', 'OWNER', 'other'), []);
            same('the fence', info($other, 'body')['fence'], $fence);
            return 'done';
        });
        same('the result', $answer, 'done');
        same('free', info($other, 'body'), []);
    },

    'it waits no longer than asked' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $other->rawCommand('LOCK.ACQUIRE', 'busy', 'OWNER', 'other', 'PX', 60_000);
        $body = fn() => throw new Exception('two have the lock');
        same('told', refused(fn() => withLock($redis, 'busy', $body, waitMs: 20)), 'someone else holds busy');
    },

    'the program takes user, password and database of the URL' => function (): void {
        $redis = connect();
        same('a user', $redis->rawCommand('ACL', 'SETUSER', 'app', 'on', '>p@ss/', '~*', '&*', '+@all'), true);
        $run = function (string $password): string {
            $url = "redis://app:$password@127.0.0.1:" . getenv('REDIS_PORT') . "/2";
            return (string) shell_exec("REDIS_URL='$url' php " . __DIR__ . '/docs/lock.php 2>&1');
        };
        $redis->rawCommand('LOCK.ACQUIRE', 'invoice:42', 'OWNER', 'other', 'PX', 60_000);
        ok('held in another database', str_contains($run('p%40ss%2F'), 'held with fence'));
        ok('not with another password', !str_contains($run('wrong'), 'held with fence'));
        $redis->rawCommand('ACL', 'DELUSER', 'app');
    },

    'an exception of the body is the one to see' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $seen = function (callable $body) use ($redis): string {
            try {
                withLock($redis, 'thrown', $body);
            } catch (DomainException $error) {
                return $error->getMessage();
            }
            throw new Exception('nothing was thrown');
        };
        same('thrown', $seen(fn() => throw new DomainException('my own')), 'my own');
        same('given back', info($other, 'thrown'), []);
        same('thrown after the lock was lost', $seen(function () use ($other): never {
            same('broken', $other->rawCommand('LOCK.BREAK', 'thrown'), 1);
            throw new DomainException('my own');
        }), 'my own');
    },

    'a lost lock does not go unnoticed' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $lose = fn() => waitFor('the lease ends', fn() => info($other, 'lost') === []);
        ok('NOTHELD', str_starts_with(refused(fn() => withLock($redis, 'lost', $lose, leaseMs: 50)), 'NOTHELD '));
    },

    'a late release with the fence' => function (): void {
        [$redis, $other] = [connect(), connect()];
        [, $old] = $redis->rawCommand('LOCK.ACQUIRE', 'late', 'OWNER', 'A', 'PX', 50);
        [, $new] = $other->rawCommand('LOCK.ACQUIRE', 'late', 'OWNER', 'B', 'PX', 60_000, 'BLOCK', 0);
        ok('a greater fence', $new > $old);
        ok('too late', str_starts_with(refused(fn() => lockCommand($redis, 'LOCK.RELEASE', 'late', 'A', 'FENCE', $old)), 'NOTHELD '));
        ok('the old fence', str_starts_with(refused(fn() => lockCommand($redis, 'LOCK.RELEASE', 'late', 'B', 'FENCE', $old)), 'NOTHELD '));
        same('held by B', info($redis, 'late')['fence'], $new);
        same('in time', lockCommand($other, 'LOCK.RELEASE', 'late', 'B', 'FENCE', $new), 0);
    },

    '20 processes on one lock: all are served, none together' => function (): void {
        $redis = connect();
        $redis->rawCommand('LOCK.ACQUIRE', 'crowd', 'OWNER', 'gate', 'PX', 60_000);
        for ($i = 0; $i < PROCESSES; $i++) {
            Workers::start(function (): void {
                $redis = connect();
                for ($round = 0; $round < 5; $round++) {
                    withLock($redis, 'crowd', function (int $fence) use ($redis): void {
                        same('alone', $redis->incr('inside'), 1);
                        usleep(500); // the others' chance
                        $redis->rPush('fences', (string) $fence);
                        $redis->decr('inside');
                    }, waitMs: 60_000);
                }
            });
        }
        waitFor('all wait', fn() => waiters($redis, 'crowd') === PROCESSES);
        $begin = hrtime(true);
        $redis->rawCommand('LOCK.RELEASE', 'crowd', 'gate');
        Workers::join();
        printf("    %d grants a second\n", 5 * PROCESSES / (hrtime(true) - $begin) * 1e9);
        $fences = $redis->lRange('fences', 0, -1);
        same('grants', count($fences), 5 * PROCESSES);
        $sorted = $fences;
        sort($sorted, SORT_NUMERIC);
        same('each with a greater fence', $fences, $sorted);
        same('and of its own', count(array_unique($fences)), 5 * PROCESSES);
    },

    '500 buyers of 5 articles: no piece is sold twice' => function (): void {
        same('sold', sale(500, fn() => connect()), 5 * 60);
    },

    'control: without the lock pieces are sold twice' => function (): void {
        ok('sold too often', sale(500, fn() => connect(new WithoutLock())) > 5 * 60);
    },

    // Whoever reads while somebody writes sees it: by a count of who is inside, and by a file that is written in two steps.
    '100 processes read and 5 write' => function (): void {
        $redis = connect();
        $book = tempnam(sys_get_temp_dir(), 'book');
        file_put_contents($book, '0 0');
        $write = function (Redis $redis) use ($book): void {
            $number = $redis->incr('written');
            same('alone', [$redis->incr('writers'), $redis->get('readers') ?: '0'], [1, '0']);
            file_put_contents($book, "$number ");
            usleep(1000); // the others' chance
            file_put_contents($book, "$number $number");
            same('alone to the end', [$redis->get('readers') ?: '0', $redis->decr('writers')], ['0', 0]);
        };
        $read = function (Redis $redis) use ($book): void {
            $redis->rPush('together', (string) $redis->incr('readers'));
            same('nobody writes', $redis->get('writers') ?: '0', '0');
            usleep(20_000);
            [$one, $other] = explode(' ', file_get_contents($book));
            same('the file is whole', $one, $other);
            same('nobody has written', $redis->get('writers') ?: '0', '0');
            $redis->decr('readers');
        };
        $start = function (callable $body, int $rounds, array $options): void {
            Workers::start(function () use ($body, $rounds, $options): void {
                $redis = connect();
                for ($round = 0; $round < $rounds; $round++) {
                    withLock($redis, 'book', fn() => $body($redis), waitMs: 60_000, options: $options);
                }
            });
        };
        for ($i = 0; $i < 105; $i++) {
            $i % 21 === 0 ? $start($write, 4, []) : $start($read, 4, ['SHARED']);
        }
        Workers::join();
        unlink($book);
        same('written', $redis->get('written'), '20');
        ok('some read together', max($redis->lRange('together', 0, -1)) > 2);
        same('free', info($redis, 'book'), []);
    },

    '200 processes share 10 permits, and some are killed' => function (): void {
        $redis = connect();
        $killed = [];
        for ($i = 0; $i < 200; $i++) {
            // Each tenth takes its permit with a session, and is killed while it has it.
            $process = Workers::start(function () use ($i): void {
                $redis = connect();
                $work = function () use ($redis, $i): void {
                    $redis->rPush('together', (string) info($redis, 'service')['holders']);
                    if ($i % 10 === 0) {
                        $redis->rPush('hung', (string) getmypid());
                        sleep(60);
                    }
                    same('at most 10', $redis->incr('inside') <= 10, true);
                    usleep(20_000);
                    $redis->decr('inside');
                };
                $options = ['LIMIT', 10, ...$i % 10 === 0 ? ['SESSION'] : []];
                withLock($redis, 'service', $work, waitMs: 60_000, options: $options);
            });
            if ($i % 10 === 0) {
                $killed[] = $process;
            }
        }
        while ($killed !== []) {
            [, $process] = $redis->blPop('hung', 30) ?: throw new Exception('all permits are lost');
            posix_kill((int) $process, SIGKILL);
            Workers::ended((int) $process);
            $killed = array_diff($killed, [(int) $process]);
        }
        Workers::join();
        $together = array_map(intval(...), $redis->lRange('together', 0, -1));
        same('served', count($together), 200);
        same('at most at a time', max($together), 10);
        waitFor('all permits are given back', fn() => info($redis, 'service') === []);
    },

    'a read timeout: the program leaves the queue' => function (): void {
        [$redis, $other] = [connect(), connect()];
        [, $fence] = $other->rawCommand('LOCK.ACQUIRE', 'slow', 'OWNER', 'other', 'PX', 60_000);
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 1);
        refused(fn() => withLock($redis, 'slow', fn() => throw new Exception('two have the lock')));
        waitFor('it has left', fn() => waiters($other, 'slow') === 0);
        same('the next reply is the right one', $redis->rawCommand('ECHO', 'hello'), 'hello');
    },

    // What the page warns of. A newer phpredis that closes the connection would show here.
    'a read timeout: phpredis by itself keeps its place, and reads the late reply as the next one' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $other->rawCommand('LOCK.ACQUIRE', 'mixed', 'OWNER', 'other', 'PX', 60_000);
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 1);
        refused(fn() => $redis->rawCommand('LOCK.ACQUIRE', 'mixed', 'OWNER', 'late', 'PX', 60_000, 'BLOCK', 0));
        same('it waits on', waiters($other, 'mixed'), 1);
        $other->rawCommand('LOCK.RELEASE', 'mixed', 'other');
        same('it is granted the lock', info($other, 'mixed')['owner'], 'late');
        same('the reply to the next command', $redis->rawCommand('ECHO', 'hello')[0], 'late');
        $redis->close();
    },

    'a lost connection: nothing is sent twice' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $kill = fn(int $id) => same('killed', $other->rawCommand('CLIENT', 'KILL', 'ID', $id), 1);
        $kill($first = $redis->rawCommand('CLIENT', 'ID'));
        ok('between two commands: connected again', $redis->rawCommand('CLIENT', 'ID') > $first);

        $other->rawCommand('LOCK.ACQUIRE', 'kill', 'OWNER', 'other', 'PX', 60_000);
        Workers::start(fn() => refused(fn() => withLock(connect(), 'kill', fn() => throw new Exception('two have the lock'))));
        waitFor('it waits', fn() => waiters($other, 'kill') === 1);
        $queue = pairs($other->rawCommand('LOCK.INFO', 'kill', 'FULL'))['queue'];
        $kill(pairs($queue[0])['client-id']);
        Workers::join();
        same('nobody waits', waiters($other, 'kill'), 0);
    },

    'a session lives as long as its connection' => function (): void {
        $other = connect();
        $session = fn(Redis $redis) => $redis->rawCommand('LOCK.ACQUIRE', 'session', 'OWNER', 'alice', 'PX', 60_000, 'ONCE', 'SESSION');
        $free = fn() => info($other, 'session') === [];

        $redis = connect();
        $redis->setOption(Redis::OPT_MAX_RETRIES, 0);
        $session($redis);
        same('a session', info($other, 'session')['session'], 1);
        $other->rawCommand('CLIENT', 'KILL', 'ID', $redis->rawCommand('CLIENT', 'ID'));
        waitFor('it ends', $free);
        refused(fn() => $redis->rawCommand('PING'));
        refused(fn() => $redis->rawCommand('PING')); // not made anew

        $redis = connect();
        $session($redis);
        unset($redis);
        waitFor('it ends with the object', $free);

        // exit() ends no block, but the connection.
        Workers::start(function () use ($session): void {
            $redis = connect();
            $session($redis);
            withLock($redis, 'exit', fn() => exit(0));
        });
        Workers::join();
        waitFor('it ends with the process', $free);
        ok('the lease goes on', info($other, 'exit')['lease-ms'] > 0);

        $persistent = new Redis();
        $persistent->pconnect('127.0.0.1', (int) getenv('REDIS_PORT'));
        $session($persistent);
        $connection = $persistent->rawCommand('CLIENT', 'ID');
        unset($persistent);
        $persistent = new Redis();
        $persistent->pconnect('127.0.0.1', (int) getenv('REDIS_PORT'));
        same('pconnect: the same connection', $persistent->rawCommand('CLIENT', 'ID'), $connection);
        same('and the session goes on', info($other, 'session')['session'], 1);
        $persistent->close();
        waitFor('it ends with close()', $free);
    },

    'a cluster' => function (): void {
        $url = parse_url(getenv('CLUSTER_URL'));
        $node = [$url['host'], $url['port']];
        $cluster = new RedisCluster(null, ["$url[host]:$url[port]"], 5, 1);
        $grant = $cluster->rawCommand('door', 'LOCK.ACQUIRE', 'door', 'OWNER', 'alice', 'PX', 60_000);
        same('a grant', [$grant[0], $grant[2]], ['alice', 1]);
        same('by the node', $cluster->rawCommand($node, 'LOCK.ACQUIRE', 'door', 'OWNER', 'alice', 'ONCE')[1], $grant[1]);
        same('someone else holds it', $cluster->rawCommand('door', 'LOCK.ACQUIRE', 'door', 'OWNER', 'bob'), []);
        same('NOTHELD', $cluster->rawCommand('door', 'LOCK.RELEASE', 'door', 'bob'), false);
        ok('its message', str_starts_with($cluster->getLastError(), 'NOTHELD '));
        ok('a read timeout', refused(fn() => $cluster->rawCommand('door', 'LOCK.ACQUIRE', 'door', 'OWNER', 'bob', 'BLOCK', 0)) !== '');
        $cluster->close();
        same('after close', $cluster->rawCommand('door', 'LOCK.RELEASE', 'door', 'alice', 'FENCE', $grant[1]), 0);
        same('bob has left', $cluster->rawCommand('door', 'LOCK.INFO', 'door'), []);
    },
];

/** How many pieces are sold: 60 of each article are there, and 100 buyers want one. */
function sale(int $buyers, callable $client): int
{
    $redis = connect();
    for ($article = 0; $article < 5; $article++) {
        $redis->set("stock:$article", '60');
    }
    $redis->del('sold');
    for ($first = 0; $first < PROCESSES; $first++) {
        Workers::start(function () use ($first, $buyers, $client): void {
            [$redis, $locks] = [connect(), $client()];
            for ($buyer = $first; $buyer < $buyers; $buyer += PROCESSES) {
                $article = intdiv($buyer, PROCESSES) % 5;
                withLock($locks, "lock:$article", function () use ($redis, $article): void {
                    $left = (int) $redis->get("stock:$article");
                    usleep(500); // the others' chance
                    if ($left > 0) {
                        $redis->set("stock:$article", (string) ($left - 1));
                        $redis->incr('sold');
                    }
                }, waitMs: 60_000);
            }
        });
    }
    Workers::join();
    return (int) $redis->get('sold');
}

$failed = 0;
$ran = 0;
foreach ($tests as $name => $test) {
    if (!str_contains($name, $argv[1] ?? '')) {
        continue;
    }
    $ran++;
    $begin = hrtime(true);
    try {
        connect()->flushAll();
        $test();
        printf("ok: %s (%.2f s)\n", $name, (hrtime(true) - $begin) / 1e9);
    } catch (Throwable $error) {
        $failed++;
        echo "FAILED: $name\n$error\n";
    } finally {
        Workers::end();
    }
}
echo "$ran tests, $failed failed\n";
exit($failed === 0 && $ran > 0 ? 0 : 1);
