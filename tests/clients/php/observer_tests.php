<?php

declare(strict_types=1);

// What an observer hears.

use Redislock\{Deadlock, LockError, LockLost, Locks, Mode, NotAcquired, Observer, ObserverDefaults, Outcome};

/** Notes each event with what it carries. */
final class Notes implements Observer
{
    public array $events = [];

    public function waiting(array $keys, Mode $mode): void
    {
        $this->events[] = ['waiting', $keys, $mode];
    }

    public function acquired(array $keys, Mode $mode, float $waited, int $fence): void
    {
        $this->events[] = ['acquired', $keys, $mode, $fence, $waited];
    }

    public function refused(array $keys, Mode $mode, float $waited, Outcome $outcome, Throwable $reason): void
    {
        $this->events[] = ['refused', $keys, $mode, $outcome, $waited];
    }

    public function released(array $keys, Mode $mode, float $held): void
    {
        $this->events[] = ['released', $keys, $mode, $held];
    }

    public function lost(array $keys, Mode $mode, float $held, LockLost $reason): void
    {
        $this->events[] = ['lost', $keys, $mode, $reason->reason, $held];
    }

    /** The only one that has come since. */
    public function one(mixed ...$wanted): array
    {
        same('one event', count($this->events), 1);
        $event = array_pop($this->events);
        same('the event', array_slice($event, 0, count($wanted)), $wanted);
        return $event;
    }
}

return [
    'observer: what is free is acquired without a wait' => function (): void {
        $locks = new Locks(connect(), $notes = new Notes());
        $held = $locks->acquire('door', limit: 2);
        $notes->one('acquired', ['door'], Mode::Limit, $held->fence());
        $held->release();
        $notes->one('released', ['door'], Mode::Limit);
        $held->release();
        $locks->withLock(['a', 'b'], fn() => $notes->one('acquired', ['a', 'b'], Mode::Exclusive));
        $notes->one('released', ['a', 'b'], Mode::Exclusive);
    },

    'observer: an acquire that has to wait says so' => function (): void {
        $other = connect();
        $other->rawCommand('LOCK.ACQUIRE', 'door', 'OWNER', 'other', 'PX', 600_000);
        Workers::start(function (): void {
            waitFor('it waits', fn() => waiters(connect(), 'door') === 1);
            usleep(20_000);
            connect()->rawCommand('LOCK.RELEASE', 'door', 'other');
        });
        $locks = new Locks(connect(), $notes = new Notes());
        $held = $locks->acquire('door', shared: true);
        same('first', array_shift($notes->events), ['waiting', ['door'], Mode::Shared]);
        ok('the time', $notes->one('acquired', ['door'], Mode::Shared, $held->fence())[4] >= 0.02);
        Workers::join();
    },

    'observer: what is refused is told why' => function (): void {
        $other = connect();
        $other->rawCommand('LOCK.ACQUIRE', 'door', 'OWNER', 'other', 'PX', 600_000);
        $locks = new Locks(connect(), $notes = new Notes());
        same('nothing', $locks->tryAcquire('door'), null);
        $notes->one('refused', ['door'], Mode::Exclusive, Outcome::Busy);
        throws('in vain', NotAcquired::class, fn() => $locks->acquire('door', wait: 0.5));
        array_shift($notes->events);
        ok('the time', $notes->one('refused', ['door'], Mode::Exclusive, Outcome::Timeout)[4] >= 0.5);
        throws('too many', LockError::class, fn() => $locks->acquire('door', limit: 5000));
        $notes->one('refused', ['door'], Mode::Limit, Outcome::Error);
        $held = $locks->acquire('window', owner: 'me');
        $other->rawCommand('LOCK.ACQUIRE', 'window', 'OWNER', 'other', 'NOTIFY', 'channel', 'ONCE', 'BLOCK', 0);
        $notes->events = [];
        throws('a cycle', Deadlock::class, fn() => $locks->acquire('door', owner: 'me', detect: true));
        same('it waits first', array_shift($notes->events)[0], 'waiting');
        $notes->one('refused', ['door'], Mode::Exclusive, Outcome::Deadlock);
    },

    'observer: a loss is told once with its reason' => function (): void {
        $other = connect();
        $locks = new Locks(connect(), $notes = new Notes());
        foreach (['extend', 'release'] as $finds) {
            $held = $locks->acquire('door');
            $other->rawCommand('LOCK.BREAK', 'door');
            $notes->events = [];
            throws('lost', LockLost::class, $held->$finds(...));
            $notes->one('lost', ['door'], Mode::Exclusive, 'the server says that it is not held');
            $finds === 'release' || throws('lost', LockLost::class, $held->release(...));
            same('no more', $notes->events, []);
        }
    },

    'observer: what the end of the program gives back is released, or lost if the server can\'t be reached' => function (): void {
        foreach (['' => 'released', 'connect()->rawCommand("CLIENT", "PAUSE", 600000, "WRITE");' => 'lost'] as $more => $event) {
            $code = 'foreach (["' . $GLOBALS['argv'][1] . '/vendor/autoload.php", "support.php", "observer_tests.php"] as $file) require_once $file;'
                . '$locks = new Redislock\Locks(connect(), $notes = new Notes()); $held = $locks->acquire("door", lease: 600);'
                . 'register_shutdown_function(fn() => register_shutdown_function(fn() => register_shutdown_function(fn() =>'
                . 'print(end($notes->events)[0]))));' . $more;
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
