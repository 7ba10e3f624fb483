<?php

declare(strict_types=1);

// Tests that a child after a fork leaves its parent's connections alone: persistent ones, those over TLS, and given objects.

use Redislock\Locks;

$persistent = function (): Redis {
    $redis = new Redis();
    $redis->pconnect('127.0.0.1', (int) getenv('REDIS_PORT'));
    $redis->select(0); // sends a command when it connects, as AUTH would be
    return $redis;
};

/** The port on which the test's server speaks TLS; null if the server was built without TLS. */
function tlsPort(string $folder): ?int
{
    $redis = connect();
    if ($redis->rawCommand('CONFIG', 'GET', 'tls-port') === []) {
        return null;
    }
    $key = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_RSA, 'private_key_bits' => 2048]);
    $certificate = openssl_csr_sign(openssl_csr_new(['commonName' => 'localhost'], $key), null, $key, 1);
    openssl_x509_export_to_file($certificate, "$folder/certificate");
    openssl_pkey_export_to_file($key, "$folder/key");
    $socket = stream_socket_server('tcp://127.0.0.1:0');
    $port = (int) parse_url('tcp://' . stream_socket_get_name($socket, false), PHP_URL_PORT);
    fclose($socket);
    $settings = ['tls-cert-file' => "$folder/certificate", 'tls-key-file' => "$folder/key", 'tls-ca-cert-file' => "$folder/certificate",
        'tls-auth-clients' => 'no', 'tls-port' => $port];
    foreach ($settings as $name => $value) {
        same($name, $redis->rawCommand('CONFIG', 'SET', $name, $value), true);
    }
    return $port;
}

return [
    'after a fork, a persistent connection is refused, and the parent keeps its own' => function () use ($persistent): void {
        foreach (['1', '0'] as $pooled) {
            $before = ini_set('redis.pconnect.pooling_enabled', $pooled);
            $locks = new Locks($persistent);
            $held = $locks->acquire('door', lease: 600);
            $idle = $persistent();
            unset($idle); // returns the connection to the pool
            Workers::start(function () use ($locks, $persistent): void {
                foreach ([...array_fill(0, 50, $locks), new Locks($persistent)] as $mine) {
                    $error = throws('pconnect', InvalidArgumentException::class, fn() => $mine->tryAcquire('door'));
                    ok($error->getMessage(), str_contains($error->getMessage(), 'pconnect'));
                }
                ok('none is left open', count(glob('/proc/self/fd/*')) < 50);
                $own = new Locks(fn() => connect());
                same('the parent\'s', $own->tryAcquire('door'), null);
                $own->withLock('window', fn() => null);
            });
            Workers::join();
            ok("extended, pool $pooled", $held->extend(600) > 599);
            $held->release();
            ini_set('redis.pconnect.pooling_enabled', $before);
        }
    },

    'after a fork, a connection that the parent has used for locks is refused in each object' => function (): void {
        $redis = connect();
        (new Locks($redis))->withLock('door', fn() => null);
        Workers::start(fn() => throws('the parent\'s', InvalidArgumentException::class, fn() => (new Locks($redis))->acquire('door')));
        Workers::join();
    },

    'over TLS, a child that locks leaves its parent\'s session alone until it ends' => function (): void {
        $folder = sys_get_temp_dir() . '/redislock-' . bin2hex(random_bytes(8));
        mkdir($folder);
        try {
            $port = tlsPort($folder);
            if ($port === null) {
                echo "this server has no TLS\n";
                return;
            }
            $locks = new Locks(function () use ($port): Redis {
                $redis = new Redis();
                $redis->connect('tls://127.0.0.1', $port, 2, null, 0, 0, ['stream' => ['verify_peer' => false, 'verify_peer_name' => false]]);
                return $redis;
            });
            [$session, $lease] = [$locks->acquire('session', session: true), $locks->acquire('lease', lease: 600)];
            $id = info(connect(), 'session')['client-id'];
            $work = function () use ($locks): void {
                $locks->withLock('window', fn() => null);
            };
            $child = Workers::start(fn() => $work() ?? posix_kill(getmypid(), SIGKILL));
            Workers::ended($child);
            same('the session goes on', info(connect(), 'session')['client-id'] ?? null, $id);
            same('on this connection', $locks->tryAcquire('session'), null);
            same('which is the same', info(connect(), 'session')['client-id'] ?? null, $id);
            Workers::start($work);
            Workers::join();
            waitFor('a child that ends in order closes it', fn() => info(connect(), 'session') === []);
            ok('a lease stays', $lease->extend(600) > 599);
            $lease->release();
            throws('the loss is told', Redislock\LockLost::class, $session->release(...));
        } finally {
            connect()->rawCommand('CONFIG', 'SET', 'tls-port', 0);
            array_map(unlink(...), glob("$folder/*"));
            rmdir($folder);
        }
    },
];
