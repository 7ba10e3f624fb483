<?php

declare(strict_types=1);

// Tests an observer at the end of the program, and one that throws. (conformance/driver/scenarios_observer.py tests what it is told.)

use Redislock\{Locks, Mode, Observer, ObserverDefaults};

return [
    'observer: what the end of the program gives back is released, or lost if the server can\'t be reached' => function (): void {
        foreach (['' => 'released', 'connect()->rawCommand("CLIENT", "PAUSE", 600000, "WRITE");' => 'lost'] as $more => $event) {
            $code = 'foreach (["' . $GLOBALS['argv'][1] . '/vendor/autoload.php", "support.php"] as $file) require_once $file;'
                . '$observer = new class implements Redislock\Observer { use Redislock\ObserverDefaults; public $last;'
                . 'public function released(...$what): void { $this->last = "released"; } public function lost(...$what): void { $this->last = "lost"; } };'
                . '$locks = new Redislock\Locks(connect(), $observer); $held = $locks->acquire("door", lease: 600);'
                . 'register_shutdown_function(fn() => register_shutdown_function(fn() => register_shutdown_function(fn() =>'
                . 'print($observer->last))));' . $more;
            same('the event', exec(escapeshellarg(PHP_BINARY) . ' -r ' . escapeshellarg($code)), $event);
            connect()->rawCommand('CLIENT', 'UNPAUSE');
        }
    },

    'observer: one that throws is logged and changes nothing' => function (): void {
        $observer = new class implements Observer {
            use ObserverDefaults;

            public function acquired(array $keys, Mode $mode, float $waited, int $fence): void
            {
                throw new LogicException('not today');
            }
        };
        $log = tempnam(sys_get_temp_dir(), 'log');
        $before = ini_set('error_log', $log);
        try {
            same('done', (new Locks(connect(), $observer))->withLock('door', fn() => 5), 5);
            same('logged', substr_count(file_get_contents($log), 'not today'), 1);
        } finally {
            ini_set('error_log', (string) $before);
            unlink($log);
        }
        same('free', info(connect(), 'door'), []);
    },
];
