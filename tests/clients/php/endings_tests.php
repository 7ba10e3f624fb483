<?php

declare(strict_types=1);

// Tests what ends locks besides a release: the end of the program, a closed client, and losses in nested blocks.

use Redislock\{Held, LockLost, Locks};

/** Runs a program that holds three locks. Returns how many seconds it took. */
function runProgram(string $more): float
{
    $begin = microtime(true);
    $code = "require '{$GLOBALS['argv'][1]}/vendor/autoload.php';" . '$redis = new Redis(); $redis->connect("127.0.0.1", (int) getenv("REDIS_PORT"));'
        . '$locks = new Redislock\Locks($redis); $held = array_map(fn($at) => $locks->acquire("door$at", lease: 600), [0, 1, 2]);' . $more;
    exec(escapeshellarg(PHP_BINARY) . ' -d display_errors=0 -d log_errors=0 -r ' . escapeshellarg($code) . ' 2>/dev/null');
    return microtime(true) - $begin;
}

function heldDoors(): int
{
    return count(array_filter([0, 1, 2], fn(int $at) => info(connect(), "door$at") !== []));
}

return [
    'a program that ends releases what it holds, also after a fatal error' => function (): void {
        $fatal = 'ini_set("memory_limit", "16M"); str_repeat("x", 1 << 26);';
        foreach (['', 'exit(3);', 'throw new Exception();', $fatal, 'register_shutdown_function(fn() => exit);', '$redis->close();'] as $more) {
            runProgram($more);
            same($more, heldDoors(), 0);
        }
        $then = '$redis->set("then", $redis->rawCommand("EXISTS", "door0"))';
        runProgram("register_shutdown_function(fn() => $then);");
        same('held until all others that run at the end have run', connect()->get('then'), '1');
        runProgram("unset(\$held); $then;");
        same('the first one is free when its object goes', connect()->get('then'), '0');
    },

    'a program that does not end in order, or is a child, releases nothing' => function (): void {
        foreach (['posix_kill(getmypid(), SIGKILL);', 'pcntl_fork() === 0 ? exit : pcntl_wait($status) && posix_kill(getmypid(), SIGKILL);'] as $more) {
            runProgram($more);
            same($more, heldDoors(), 3);
            connect()->flushAll();
        }
    },

    'a program ends without its server, whatever it holds' => function (): void {
        $more = 'for ($at = 3; $at < 60; $at++) $held[] = $locks->acquire("door$at"); $redis->rawCommand("CLIENT", "PAUSE", 600000, "WRITE");';
        ok('not a second for each', runProgram($more) < 30);
        connect()->rawCommand('CLIENT', 'UNPAUSE');
    },

    'a loss in nested blocks is told by its own' => function (): void {
        [$locks, $other] = [new Locks(connect()), connect()];
        $lost = throws('of the outer one', LockLost::class, fn() => $locks->withLock('outer', function () use ($locks, $other): void {
            $locks->withLock('inner', fn() => $other->rawCommand('LOCK.BREAK', 'outer'));
            same('the inner one is free', info($other, 'inner'), []);
        }));
        ok('which one', str_starts_with($lost->getMessage(), 'outer:'));
    },

    'what the work leaves behind on the connection does not keep its lock' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $locks = new Locks($redis);
        $locks->withLock('door', fn() => $redis->select(3));
        same('free where it was held', info($other, 'door'), []);
        same('the database stays the user\'s', $redis->getDbNum(), 3);
        $held = $locks->acquire('door');
        $redis->select(0);
        $held->extend(600);
        $locks->withLock('door', fn() => same('locks of two databases', $held->lost(), null));
        $other->select(3);
        $other->rawCommand('LOCK.BREAK', 'door');
        throws('a loss', LockLost::class, $held->release(...));
        same('still the user\'s', $redis->getDbNum(), 0);
        throws('the error of the work', DomainException::class, fn() => $locks->withLock('door', function () use ($redis): never {
            $redis->multi();
            throw new DomainException();
        }));
        $redis->discard();
        $other->select(0);
        $locks->withLock('window', fn() => same('given back before the next one', info($other, 'door'), []));
    },

    'a client that is closed opens again' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $locks = new Locks($redis);
        $redis->close();
        $locks->withLock('door', function (Held $held) use ($redis, $other): void {
            $redis->close();
            ok('it goes on', $held->extend(600) > 599);
            $redis->close();
        });
        same('free', info($other, 'door'), []);
        $held = $locks->acquire('door', session: true);
        $redis->close();
        waitFor('a session ends', fn() => info($other, 'door') === []);
        throws('which is told', LockLost::class, $held->release(...));
    },
];
