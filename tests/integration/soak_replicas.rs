//! After a long mix of all commands, replicas of every kind have the same data as their primary, and have been told
//! effects only.

use std::collections::BTreeMap;

use crate::support::{Client, Rng, Server, Setup, figure, size, wait_for};

const DATABASES: usize = 2;

/// What replicas may be sent of the mix: the effect of lock commands, and the server's own.
// `copy`: of a string; a lock can't be copied.
const EFFECTS: [&str; 17] = [
    "lock.apply",
    "del",
    "copy",
    "unlink",
    "pexpireat",
    "persist",
    "rename",
    "move",
    "set",
    "flushdb",
    "flushall",
    "swapdb",
    "select",
    "multi",
    "exec",
    "ping",
    "publish",
];

/// What the tests ask of a replica.
const OURS: [&str; 13] = [
    "config|get",
    "psync",
    "config|set",
    "lock.info",
    "info",
    "debug",
    "keys",
    "pexpiretime",
    "client|setinfo",
    "replicaof",
    "replconf",
    "flushall",
    "hello",
];

/// Clients of all kinds on one primary, driven by one row of random numbers.
struct Mix<'a> {
    primary: &'a Server,
    rng: Rng,
    client: Client,
    /// Blocked in an acquire, or answered already.
    waiters: Vec<Client>,
    /// Holders of sessions.
    sessions: Vec<Client>,
    steps: usize,
    granted: usize,
}

impl<'a> Mix<'a> {
    fn new(primary: &'a Server) -> Self {
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

    /// A short lease, which lapses meanwhile, or one that does not.
    fn lease(&mut self) -> i64 {
        if self.rng.percent(40) {
            1 + self.rng.below(30) as i64
        } else {
            600_000 + self.rng.below(99_999) as i64
        }
    }

    fn acquire(&mut self) -> String {
        let (key, owner, lease) = (self.key(), self.owner(), self.lease());
        let mut line = format!("LOCK.ACQUIRE {key}");
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

    /// Any command that one client sends and that is answered at once.
    fn line(&mut self) -> String {
        let (key, other, owner, lease) = (self.key(), self.key(), self.owner(), self.lease());
        match self.rng.below(40) {
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
            _ => format!("SELECT {}", self.rng.below(DATABASES)),
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        match self.rng.below(100) {
            0 => drop(self.client.send("FLUSHDB")),
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
                waiter.begin(&line);
                self.waiters.push(waiter);
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
                // The others close the connection, whether answered or not.
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

    /// Until nothing changes any more: nobody waits, no session is left, and no short lease.
    fn settle(&mut self) {
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
                keys.iter().all(|key| {
                    let left: i64 = client.ask(&format!("PTTL {key}"));
                    left == -1 || left > 300_000
                })
            }) && quiet
        });
    }
}

/// How often the server has carried out each command.
fn calls(server: &Server) -> BTreeMap<String, i64> {
    let text: String = server.client().ask("INFO commandstats");
    let lines = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
    let calls = lines.map(|(name, rest)| (name.into(), rest.split(',').next().unwrap().parse().unwrap()));
    calls.collect()
}

fn effects(server: &Server) -> BTreeMap<String, i64> {
    calls(server).into_iter().filter(|(name, _)| EFFECTS.contains(&&name[..]) && name != "ping").collect()
}

#[track_caller]
fn same(replica: &Server, of: &Server, primary: &Server, name: &str) {
    replica.wait_for_sync_with(of);
    let (mut here, mut there) = (replica.client(), primary.client());
    let (is, expected): (String, String) = (here.ask("DEBUG DIGEST"), there.ask("DEBUG DIGEST"));
    for db in 0..DATABASES {
        here.ask::<()>(&format!("SELECT {db}"));
        there.ask::<()>(&format!("SELECT {db}"));
        assert_eq!(here.snapshot().leases, there.snapshot().leases, "{name}, database {db}");
        for (key, _) in there.snapshot().leases {
            let key = String::from_utf8(key).unwrap();
            let holders = [&mut here, &mut there].map(|client| {
                let info = client.send(&format!("LOCK.INFO {key}"));
                info.map(|info| redis::from_redis_value::<Vec<redis::Value>>(info).unwrap()[..6].to_vec())
            });
            assert_eq!(holders[0], holders[1], "{name}: {key}");
        }
    }
    assert_eq!(is, expected, "{name}");
    for (command, calls) in calls(replica) {
        let known = EFFECTS.contains(&&command[..]) || OURS.contains(&&command[..]);
        assert!(known, "{name} was sent {command}, {calls} times");
    }
}

/// Commands that are refused or change nothing.
const WITHOUT_EFFECT: [&str; 14] = [
    "LOCK.ACQUIRE held OWNER bob",
    "LOCK.ACQUIRE held OWNER bob BLOCK 1",
    "LOCK.ACQUIRE held OWNER alice ONCE PX 1",
    "LOCK.ACQUIRE held OWNER alice PX 0",
    "LOCK.ACQUIRE string",
    "LOCK.RELEASE held bob",
    "LOCK.RELEASE held alice FENCE 1",
    "LOCK.RELEASE free alice",
    "LOCK.EXTEND held bob",
    "LOCK.EXTEND free bob",
    "LOCK.BREAK free",
    "LOCK.BREAK held FENCE 1",
    "COPY held other",
    "LOCK.APPLY held",
];

#[test]
fn a_random_mix() {
    let (rounds, steps) = size((1, 2_000), (10, 30_000));
    let (mut total, mut granted, mut told) = (0, 0, 0);
    for _ in 0..rounds {
        let primary = Setup::new().module_args("default-lease 600000").start();
        let first = primary.replica();
        let second = first.replica();
        let swapping = primary.replica_with(Setup::new().set("repl-diskless-load", "swapdb"));
        let mut mix = Mix::new(&primary);
        let mut late = Vec::new();
        for step in 0..steps {
            mix.step();
            if step == steps / 4 {
                swapping.client().ask::<()>("REPLICAOF NO ONE");
                swapping.client().ask::<()>("SET other text");
                swapping.client().ask::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
            } else if step == steps / 3 || step == steps / 2 {
                let diskless = if step == steps / 3 { "yes" } else { "no" };
                primary.client().ask::<()>(&format!("CONFIG SET repl-diskless-sync {diskless}"));
                late.push(Setup::new().set("replicaof", &format!("127.0.0.1 {}", primary.port())).start());
            }
        }
        mix.settle();
        same(&first, &primary, &primary, "the replica");
        same(&second, &first, &primary, "the replica's replica");
        same(&swapping, &primary, &primary, "the replica that swaps databases");
        for late in &late {
            same(late, &primary, &primary, "a replica that joined in the middle");
        }

        let client = &mut mix.client;
        client.ask::<()>("FLUSHALL");
        client.acquire("held", "OWNER alice PX 600000").unwrap();
        client.ask::<()>("SET string text");
        first.wait_for_sync_with(&primary);
        let before = effects(&first);
        for line in WITHOUT_EFFECT {
            let _ = client.send(line);
        }
        first.wait_for_sync_with(&primary);
        assert_eq!(effects(&first), before);
        total += mix.steps;
        granted += mix.granted;
        told += before["lock.apply"];
    }
    assert!(granted > 0 && told > 0);
    figure(
        "replicas after a random mix",
        format_args!("{rounds} x 5 replicas, {total} steps, {granted} waiters granted, {told} effects told"),
    );
}
