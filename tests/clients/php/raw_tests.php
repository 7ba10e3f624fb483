<?php

declare(strict_types=1);

// Tests raw commands with phpredis, as in the page for all clients.

return [
    'errors: some are false, some are thrown' => function (): void {
        $redis = connect();
        $redis->set('word', 'x');
        same('a syntax error', $redis->rawCommand('LOCK.ACQUIRE', 'door', 'OWNED'), false);
        same('its message', $redis->getLastError(), "ERR syntax error at 'OWNED'");
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
    },

    'a read timeout: phpredis by itself keeps its place, and reads the late reply as the next one' => function (): void {
        [$redis, $other] = [connect(), connect()];
        $other->rawCommand('LOCK.ACQUIRE', 'mixed', 'OWNER', 'other', 'PX', 600_000);
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 1);
        refused(fn() => $redis->rawCommand('LOCK.ACQUIRE', 'mixed', 'OWNER', 'late', 'PX', 600_000, 'BLOCK', 0));
        same('it waits on', waiters($other, 'mixed'), 1);
        $other->rawCommand('LOCK.RELEASE', 'mixed', 'other');
        same('it is granted the lock', info($other, 'mixed')['owner'], 'late');
        same('the reply to the next command', $redis->rawCommand('ECHO', 'hello')[0], 'late');
        $redis->close();
    },

    'a session lives as long as its connection' => function (): void {
        $other = connect();
        $session = fn(Redis $redis) => $redis->rawCommand('LOCK.ACQUIRE', 'session', 'OWNER', 'alice', 'PX', 600_000, 'ONCE', 'SESSION');
        $free = fn() => info($other, 'session') === [];

        $redis = connect();
        $redis->setOption(Redis::OPT_MAX_RETRIES, 0);
        $session($redis);
        same('a session', info($other, 'session')['session'], 1);
        $other->rawCommand('CLIENT', 'KILL', 'ID', $redis->rawCommand('CLIENT', 'ID'));
        waitFor('it ends', $free);
        refused(fn() => $redis->rawCommand('PING'));
        refused(fn() => $redis->rawCommand('PING')); // phpredis does not reconnect

        $redis = connect();
        $session($redis);
        unset($redis);
        waitFor('it ends with the object', $free);

        $persistent = fn() => (function (Redis $redis): Redis {
            $redis->pconnect('127.0.0.1', (int) getenv('REDIS_PORT'));
            return $redis;
        })(new Redis());
        $redis = $persistent();
        $session($redis);
        $connection = $redis->rawCommand('CLIENT', 'ID');
        unset($redis);
        $redis = $persistent();
        same('pconnect: the same connection', $redis->rawCommand('CLIENT', 'ID'), $connection);
        same('and the session goes on', info($other, 'session')['session'], 1);
        $redis->close();
        waitFor('it ends with close()', $free);
    },
];
