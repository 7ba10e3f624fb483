//! The programs of benches/clients: real clients in their own languages, with Redislock and with other locks.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::hosts::Kind;

/// How long a program may take to get ready, or to end: there are many of them, and a JVM takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of a language, and the locks that its users have.
pub(crate) struct Language {
    /// What installs what the program needs, and runs it.
    pub(crate) run: &'static str,
    pub(crate) name: &'static str,
    /// With which Redislock's commands are sent as they are.
    pub(crate) client: &'static str,
    /// In which mode of the program how many processes are 8 clients.
    pub(crate) contend: (&'static str, usize),
    /// The package, then raw commands by the client library under it, then others of ours.
    pub(crate) ours: &'static [Lock],
    pub(crate) peers: &'static [Lock],
}

/// A way to lock.
pub(crate) struct Lock {
    /// Its name for the program.
    pub(crate) who: &'static str,
    pub(crate) name: &'static str,
    pub(crate) host: Kind,
}

pub(crate) const PLAIN: Lock =
    Lock { who: "redislock", name: "LOCK.ACQUIRE ... BLOCK 0", host: Kind::Module };
pub(crate) const SESSION: Lock =
    Lock { who: "session", name: "LOCK.ACQUIRE ... BLOCK 0 SESSION", host: Kind::Module };
/// What most users of that language take: see `clients/`.
pub(crate) const PACKAGE: Lock = Lock { who: "package", name: "Redislock's package", host: Kind::Module };

pub(crate) const JAVA: &str = "benches/clients/java/run";
pub(crate) const GO: &str = "benches/clients/go/run";

pub(crate) const SPRING: Lock = Lock {
    who: "spring",
    name: "Spring's RedisLockRegistry: SET NX PX in Lua every 100 ms",
    host: Kind::Plain,
};
pub(crate) const RLOCK: Lock = Lock { who: "rlock", name: "Redisson's RLock", host: Kind::Plain };
pub(crate) const REDSYNC: Lock =
    Lock { who: "redsync", name: "redsync: SET NX PX every 50 to 250 ms", host: Kind::Plain };

/// Java has two client libraries that many use: our package is made for the first.
const LETTUCE: Lock = Lock { who: "lettuce", ..PLAIN };
const JEDIS: Lock = Lock { name: "LOCK.ACQUIRE ... BLOCK 0 with Jedis", ..PLAIN };
const JEDIS_SESSION: Lock = Lock { name: "LOCK.ACQUIRE ... BLOCK 0 SESSION with Jedis", ..SESSION };
const FAIR: Lock = Lock { who: "fair", name: "Redisson's RFairLock", host: Kind::Plain };

/// Eight programs that are one client each: with as many threads as that has, for every client.
pub(crate) const EIGHT_JVMS: Language = Language {
    run: JAVA,
    name: "Java, eight JVMs",
    client: "Lettuce",
    contend: ("contend-1", 8),
    ours: &[PACKAGE, LETTUCE],
    peers: &[FAIR],
};

/// Whose programs only contend: no other lock is compared with ours.
pub(crate) const PACKAGES_ONLY: [Language; 2] = [
    Language {
        run: "benches/clients/ruby/run",
        name: "Ruby",
        client: "redis-rb",
        contend: ("contend", 8),
        ours: &[PACKAGE, PLAIN],
        peers: &[],
    },
    Language {
        run: "benches/clients/php/run",
        name: "PHP",
        client: "phpredis",
        contend: ("contend", 8),
        ours: &[PACKAGE, PLAIN],
        peers: &[],
    },
];

pub(crate) const LANGUAGES: [Language; 4] = [
    Language {
        run: "benches/clients/python/run",
        name: "Python",
        client: "redis-py",
        contend: ("contend", 8),
        ours: &[PACKAGE, PLAIN],
        peers: &[Lock { who: "library", name: "redis-py's Lock: SET NX PX every 100 ms", host: Kind::Plain }],
    },
    Language {
        run: "benches/clients/node/run",
        name: "Node",
        client: "ioredis",
        contend: ("contend", 8),
        ours: &[PACKAGE, PLAIN],
        peers: &[Lock {
            who: "library",
            name: "redis-semaphore's Mutex: SET NX PX every 10 ms",
            host: Kind::Plain,
        }],
    },
    Language {
        run: JAVA,
        name: "Java",
        client: "Lettuce",
        contend: ("contend", 1),
        ours: &[PACKAGE, LETTUCE, JEDIS, JEDIS_SESSION],
        peers: &[FAIR, RLOCK, SPRING],
    },
    Language {
        run: GO,
        name: "Go",
        client: "go-redis",
        contend: ("contend", 1),
        ours: &[PACKAGE, PLAIN],
        peers: &[
            REDSYNC,
            Lock { who: "postgres", name: "PostgreSQL's pg_advisory_lock, with pgx", host: Kind::Postgres },
            Lock { who: "etcd", name: "etcd's Mutex", host: Kind::Etcd },
        ],
    },
];

/// A program that runs; killed when dropped.
pub(crate) struct Program {
    run: &'static str,
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    /// `last` is how long to contend, or the key to hold.
    pub(crate) fn start(run: &'static str, mode: &str, address: &str, who: &str, last: &str) -> Self {
        let mut command = Command::new(run);
        // None of ours: Node makes a pipe that it gets non-blocking, also for us, and we could not print the results.
        command.args([mode, address, who, last]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{run}: {error}"));
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut errors = child.stderr.take().expect("its errors");
        thread::spawn(move || io::copy(&mut errors, &mut io::stderr()));
        let (said, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        Self { run, child, lines }
    }

    pub(crate) fn wait_until_ready(&mut self) {
        assert_eq!(self.hear(PATIENCE).as_deref(), Some("ready"), "{}", self.run);
    }

    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("its input");
        writeln!(input, "{line}").expect("a line that goes out");
    }

    /// The next line that it says; none within that time.
    pub(crate) fn hear(&mut self, within: Duration) -> Option<String> {
        match self.lines.recv_timeout(within) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("{} ended", self.run),
        }
    }

    /// All that it still says, to its end.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let said = self.lines.iter().collect();
        assert!(self.child.wait().expect("the program's end").success(), "{} failed", self.run);
        said
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal that arrives");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Already ended, or being killed: there is nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
