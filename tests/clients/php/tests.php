<?php

declare(strict_types=1);

// ./run starts this with PROJECT [FILTER]: Composer has installed the package in PROJECT.

require $argv[1] . '/vendor/autoload.php';
require __DIR__ . '/support.php';

$tests = [];
foreach (['raw', 'locks', 'endings', 'fork', 'observer', 'symfony', 'laravel'] as $file) {
    $tests += require __DIR__ . "/{$file}_tests.php";
}

$failed = 0;
$ran = 0;
foreach ($tests as $name => $test) {
    if (!str_contains($name, $argv[2] ?? '')) {
        continue;
    }
    $ran++;
    $begin = hrtime(true);
    try {
        connect()->flushAll();
        connect()->rawCommand('CONFIG', 'RESETSTAT');
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
