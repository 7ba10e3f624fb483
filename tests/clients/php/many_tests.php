<?php

declare(strict_types=1);

// Many processes at once.

use Redislock\{Held, Locks};

/** Locks that don't lock. */
final class WithoutLock
{
    public function withLock(string $key, callable $work): mixed
    {
        return $work();
    }
}

/** How many pieces are sold: 60 of each article are there, and 100 buyers want one. */
function sale(int $buyers, callable $open): int
{
    $redis = connect();
    for ($article = 0; $article < 5; $article++) {
        $redis->set("stock:$article", '60');
    }
    $redis->del('sold');
    for ($first = 0; $first < PROCESSES; $first++) {
        Workers::start(function () use ($first, $buyers, $open): void {
            [$redis, $locks] = [connect(), $open()];
            for ($buyer = $first; $buyer < $buyers; $buyer += PROCESSES) {
                $article = intdiv($buyer, PROCESSES) % 5;
                $locks->withLock("lock:$article", function () use ($redis, $article): void {
                    $left = (int) $redis->get("stock:$article");
                    usleep(500); // the others' chance
                    if ($left > 0) {
                        $redis->set("stock:$article", (string) ($left - 1));
                        $redis->incr('sold');
                    }
                });
            }
        });
    }
    Workers::join();
    return (int) $redis->get('sold');
}

return [
    '20 processes on one lock: all are served, none together' => function (): void {
        $redis = connect();
        $redis->rawCommand('LOCK.ACQUIRE', 'crowd', 'OWNER', 'gate', 'PX', 60_000);
        for ($i = 0; $i < PROCESSES; $i++) {
            Workers::start(function (): void {
                $redis = connect();
                $locks = new Locks(connect());
                for ($round = 0; $round < 5; $round++) {
                    $locks->withLock('crowd', function (Held $held) use ($redis): void {
                        same('alone', $redis->incr('inside'), 1);
                        usleep(500); // the others' chance
                        $redis->rPush('fences', (string) $held->fence());
                        $redis->decr('inside');
                    });
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
        same('sold', sale(500, fn() => new Locks(connect())), 5 * 60);
    },

    'control: without the lock pieces are sold twice' => function (): void {
        ok('sold too often', sale(500, fn() => new WithoutLock()) > 5 * 60);
    },

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
        $start = function (callable $body, int $rounds, bool $shared): void {
            Workers::start(function () use ($body, $rounds, $shared): void {
                $redis = connect();
                for ($round = 0; $round < $rounds; $round++) {
                    (new Locks($redis))->withLock('book', fn() => $body($redis), shared: $shared);
                }
            });
        };
        for ($i = 0; $i < 105; $i++) {
            $i % 21 === 0 ? $start($write, 4, false) : $start($read, 4, true);
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
                (new Locks($redis))->withLock('service', $work, limit: 10, session: $i % 10 === 0);
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
];
