//! A random mix of all commands: clients, waiters, sessions, transactions and scripts use a few keys of two databases.

use crate::support::{Client, Rng, Server, Setup, wait_for};

pub(crate) const DATABASES: usize = 2;

/// Returns a server whose default lease is longer than a test.
pub(crate) fn long_leases() -> Setup {
    Setup::new().module_args("default-lease 600000")
}

/// Clients of all kinds on one primary, driven by one sequence of random numbers.
pub(crate) struct Mix<'a> {
    primary: &'a Server,
    pub(crate) rng: Rng,
    pub(crate) client: Client,
    /// Clients that are blocked in an acquire, or have already been answered.
    waiters: Vec<Client>,
    /// Clients that hold sessions.
    sessions: Vec<Client>,
    pub(crate) steps: usize,
    pub(crate) granted: usize,
}

impl<'a> Mix<'a> {
    pub(crate) fn new(primary: &'a Server) -> Self {
        let client = primary.client();
        Self {
            primary,
            rng: Rng::new(),
            client,
            waiters: Vec::new(),
            sessions: Vec::new(),
            steps: 0,
            granted: 0,
        }
    }

    fn key(&mut self) -> String {
        format!("k{}", self.rng.below(8))
    }

    fn owner(&mut self) -> String {
        (*self.rng.one_of(&["alice", "bob", "carol", "\u{fc}%s", "0c1b6a0e-4f6b-4d0c-8f7e-3f8f1f0a9b11"]))
            .into()
    }

    /// Returns a short lease, which lapses meanwhile, or a long one.
    fn lease(&mut self) -> i64 {
        if self.rng.percent(40) {
            1 + self.rng.below(30) as i64
        } else {
            600_000 + self.rng.below(99_999) as i64
        }
    }

    /// Returns the number of keys, and several keys in any order.
    fn several(&mut self) -> String {
        let first = self.rng.below(8);
        let keys: Vec<_> =
            (0..1 + self.rng.below(3)).map(|place| format!("k{}", (first + 3 * place) % 8)).collect();
        format!("{} {}", keys.len(), keys.join(" "))
    }

    fn acquire(&mut self) -> String {
        let (key, owner, lease) = (self.key(), self.owner(), self.lease());
        let mut line = if self.rng.percent(30) {
            format!("LOCK.MACQUIRE {}", self.several())
        } else {
            format!("LOCK.ACQUIRE {key}")
        };
        if self.rng.percent(80) {
            line += &format!(" OWNER {owner}");
        }
        if self.rng.percent(80) {
            line += &format!(" PX {lease}");
        }
        if self.rng.percent(20) {
            line += " ONCE";
        }
        if self.rng.percent(20) {
            line += &format!(" MAXHOLD {}", self.lease());
        }
        line
    }

    /// Returns any command that is answered at once.
    fn line(&mut self) -> String {
        let (key, other, owner, lease) = (self.key(), self.key(), self.owner(), self.lease());
        match self.rng.below(45) {
            0..15 => self.acquire(),
            15..20 => format!("LOCK.RELEASE {key} {owner}"),
            20..23 => format!("LOCK.RELEASE {key} {owner} ALL"),
            23..27 => format!("LOCK.EXTEND {key} {owner} PX {lease}"),
            27..29 => format!("LOCK.BREAK {key}"),
            29 => format!("LOCK.INFO {key} FULL"),
            30 => format!("LOCK.BREAK {key} FENCE {lease}"),
            31 => format!("PERSIST {key}"),
            32 | 33 => format!("PEXPIRE {key} {lease}"),
            34 => format!("RENAME {key} {other}"),
            35 => format!("COPY {key} {other} REPLACE"),
            36 => format!("DEL {key}"),
            37 => format!("MOVE {key} {}", self.rng.below(DATABASES)),
            38 => format!("SET {key} text PX {lease}"),
            39..42 => format!("LOCK.MRELEASE {} {owner}", self.several()),
            42 => format!("LOCK.MRELEASE {} {owner} ALL", self.several()),
            43 => format!("LOCK.MEXTEND {} {owner} PX {lease}", self.several()),
            _ => format!("SELECT {}", self.rng.below(DATABASES)),
        }
    }

    pub(crate) fn step(&mut self) {
        self.steps += 1;
        match self.rng.below(100) {
            0 if self.rng.percent(20) => drop(self.client.send("FLUSHDB")),
            1 => drop(self.client.send("SWAPDB 0 1")),
            2..6 => {
                self.client.ask::<()>("MULTI");
                for _ in 0..3 {
                    let line = self.line();
                    let _ = self.client.send(&line);
                }
                let _ = self.client.send("EXEC");
            }
            6..10 => {
                let (key, owner, lease) = (self.key(), self.owner(), self.lease().to_string());
                let script = "redis.pcall('LOCK.ACQUIRE', KEYS[1], 'OWNER', ARGV[1], 'PX', ARGV[2])
                              redis.pcall('LOCK.EXTEND', KEYS[1], ARGV[1])
                              return redis.pcall('LOCK.RELEASE', KEYS[1], ARGV[1])";
                let _ = self.client.send_words(["EVAL", script, "1", &key, &owner, &lease]);
            }
            10..18 => {
                let mut waiter = self.primary.client();
                let line = format!("{} BLOCK {}", self.acquire(), 1 + self.rng.below(20));
                waiter.ask::<()>(&format!("SELECT {}", self.rng.below(DATABASES)));
                let id: i64 = waiter.ask("CLIENT ID");
                waiter.begin(&line);
                match self.rng.below(8) {
                    0 => self.leaves(&format!("CLIENT KILL ID {id}")),
                    way @ 1..4 => {
                        self.leaves(&format!("CLIENT UNBLOCK {id} {}", ["ERROR", "TIMEOUT"][way % 2]));
                        self.waiters.push(waiter);
                    }
                    _ => self.waiters.push(waiter),
                }
            }
            18..22 => {
                let mut client = self.primary.client();
                client.ask::<()>(&format!("SELECT {}", self.rng.below(DATABASES)));
                let line = self.acquire() + " SESSION";
                let _ = client.send(&line);
                self.sessions.push(client);
            }
            22..27 if !self.sessions.is_empty() => {
                drop(self.sessions.swap_remove(self.rng.below(self.sessions.len())));
            }
            27..36 if !self.waiters.is_empty() => {
                let mut waiter = self.waiters.swap_remove(self.rng.below(self.waiters.len()));
                // The other waiters close their connections, answered or not.
                if self.rng.percent(70) {
                    self.granted += usize::from(matches!(waiter.finish(), Ok(redis::Value::Array(_))));
                }
            }
            _ => {
                let line = self.line();
                let _ = self.client.send(&line);
            }
        }
    }

    /// Sends a waiter away in the step in which it may get a lock.
    fn leaves(&mut self, how: &str) {
        let broken = format!("LOCK.BREAK {}", self.key());
        for line in ["MULTI", &broken, how, "EXEC"] {
            let _ = self.client.send(line);
        }
    }

    /// Waits until nothing changes any more: no waiters, no sessions and no short leases are left.
    pub(crate) fn settle(&mut self) {
        for mut waiter in self.waiters.drain(..) {
            let _ = waiter.finish();
        }
        self.sessions.clear();
        wait_for("the end of waiters, sessions and short leases", || {
            let client = &mut self.client;
            let quiet =
                client.info("lock", "lock_waiters") == "0" && client.info("lock", "lock_sessions") == "0";
            (0..DATABASES).all(|db| {
                client.ask::<()>(&format!("SELECT {db}"));
                let keys: Vec<String> = client.ask("KEYS *");
                // An expired key is not listed, but may still exist.
                client.ask::<usize>("DBSIZE") == keys.len()
                    && keys.iter().all(|key| {
                        let left: i64 = client.ask(&format!("PTTL {key}"));
                        left == -1 || left > 300_000
                    })
            }) && quiet
        });
    }
}
