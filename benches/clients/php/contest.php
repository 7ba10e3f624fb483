<?php

/**
 * A client that wants one lock; benches/compare starts several, and docs/bench.md tells what it counts.
 *
 * contest.php contend ADDRESS WHO SECONDS MS: says "ready", waits for a line, contends for so long, keeps each grant for MS, and prints a
 * line for each: when it came, and when it was released, in ns of the one clock that all processes read.
 */

use Redislock\Locks;

const LEASE = 30;

foreach (['errors', 'Observer', 'Request', 'Connection', 'Held', 'Locks'] as $file) {
    require_once __DIR__ . "/../../../clients/php/src/$file.php";
}

[, , $address, $who, $seconds, $keep] = $argv;
[$host, $port] = explode(':', $address);
$connect = function () use ($host, $port): Redis {
    $redis = new Redis();
    $redis->connect($host, (int) $port);
    $redis->setOption(Redis::OPT_READ_TIMEOUT, -1); // a wait has no end
    return $redis;
};
if ($who === 'package') {
    $locks = new Locks($connect);
    $held = null;
    $acquire = function () use ($locks, &$held): void {
        $held = $locks->acquire('contested', lease: LEASE);
    };
    $release = function () use (&$held): void {
        $held->release();
    };
} else {
    $client = $connect();
    $owner = $fence = null;
    $acquire = function () use ($client, &$owner, &$fence): void {
        $owner = bin2hex(random_bytes(16));
        $fence = $client->rawCommand('LOCK.ACQUIRE', 'contested', 'OWNER', $owner, 'PX', LEASE * 1000, 'BLOCK', 0, 'ONCE')[1];
    };
    $release = function () use ($client, &$owner, &$fence): void {
        $client->rawCommand('LOCK.RELEASE', 'contested', $owner, 'FENCE', $fence);
    };
}
echo "ready\n";
fgets(STDIN);
$grants = [];
$end = hrtime(true) + (int) ($seconds * 1e9);
while (hrtime(true) < $end) {
    $acquire();
    $granted = hrtime(true);
    $keep && usleep(1000 * $keep);
    $grants[] = $granted . ' ' . hrtime(true);
    $release();
}
echo implode("\n", $grants), "\n";
