//! `kill -9` at a random moment under load, with `appendfsync always`: what was acknowledged is there afterwards.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, Rng, Setup, convert, figure, grant, size, wall_clock};

const THREADS: usize = 4;
const KEYS: usize = 16;
/// How many locks a client keeps at most.
const KEPT: usize = 3;

/// What one owner, whom only one client uses, may have of one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// No fence: it is not known. The lease ends within that time, in ms since 1970.
    Held {
        fence: Option<i64>,
        holds: i64,
        ends: (i64, i64),
    },
}

/// A command on the way, and when it was sent.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Acquire { lease: i64, at: i64 },
    Extend { lease: i64, at: i64 },
    Release { all: bool },
}

/// One owner's story.
#[derive(Debug)]
struct Story {
    key: usize,
    owner: String,
    /// By the last acknowledged reply.
    state: State,
    /// Sent, and not acknowledged.
    pending: Option<Pending>,
}

/// A grant that was acknowledged.
struct Granted {
    sent: Instant,
    received: Instant,
    fence: i64,
}

/// A client, and all that it knows.
struct Worker {
    client: Client,
    rng: Rng,
    name: String,
    stories: Vec<Story>,
    grants: Vec<Granted>,
    acknowledged: usize,
}

fn key(number: usize) -> String {
    format!("lock:{number}")
}

impl State {
    fn may_have_lapsed(self, now: i64) -> bool {
        matches!(self, Self::Held { ends, .. } if ends.0 < now)
    }

    /// What may have become of it by a command that was never acknowledged.
    fn after(self, pending: Pending, now: i64) -> Vec<Self> {
        let mut after = Vec::new();
        let moved = |lease: i64, at: i64| (at + lease, now + lease);
        if let Self::Held { fence, holds, ends } = self {
            match pending {
                Pending::Acquire { lease, at } => {
                    let (first, last) = moved(lease, at);
                    let ends = (ends.0.max(first), ends.1.max(last));
                    after.push(Self::Held { fence, holds: holds + 1, ends });
                }
                Pending::Extend { lease, at } => {
                    after.push(Self::Held { fence, holds, ends: moved(lease, at) });
                }
                Pending::Release { all } if !all && holds > 1 => {
                    after.push(Self::Held { fence, holds: holds - 1, ends });
                }
                Pending::Release { .. } => after.push(Self::Free),
            }
        }
        if let Pending::Acquire { lease, at } = pending
            && (self == Self::Free || self.may_have_lapsed(now))
        {
            after.push(Self::Held { fence: None, holds: 1, ends: moved(lease, at) });
        }
        after
    }

    fn fits(self, actual: Self) -> bool {
        match (self, actual) {
            (Self::Free, Self::Free) => true,
            (
                Self::Held { fence, holds, ends: (first, last) },
                Self::Held { fence: is, holds: has, ends: (from, to) },
            ) => (fence.is_none() || fence == is) && holds == has && from <= last && first <= to,
            _ => false,
        }
    }
}

impl Story {
    /// Whether what is there after the restart is what was acknowledged, or a command further.
    #[track_caller]
    fn check(&self, actual: State, now: i64) {
        let mut possible = vec![self.state];
        possible.extend(self.pending.into_iter().flat_map(|pending| self.state.after(pending, now)));
        let lapsed = actual == State::Free && possible.iter().any(|state| state.may_have_lapsed(now));
        assert!(
            lapsed || possible.iter().any(|state| state.fits(actual)),
            "{self:?}: there is {actual:?} at {now}"
        );
    }
}

impl Worker {
    /// Acquires, extends and releases until the server is gone.
    fn run(&mut self) {
        while self.step().is_some() {}
    }

    /// One command; none: the server is gone.
    fn step(&mut self) -> Option<()> {
        let held: Vec<usize> =
            (0..self.stories.len()).filter(|&number| self.stories[number].state != State::Free).collect();
        if held.is_empty() || held.len() < KEPT && self.rng.percent(50) {
            let owner = format!("{}-{}", self.name, self.stories.len());
            let key = self.rng.below(KEYS);
            self.stories.push(Story { key, owner, state: State::Free, pending: None });
            return self.acquire(self.stories.len() - 1);
        }
        let number = *self.rng.one_of(&held);
        match self.rng.below(10) {
            0 | 1 => self.acquire(number),
            2 | 3 => self.extend(number),
            4 => self.release(number, false),
            _ => self.release(number, true),
        }
    }

    fn lease(&mut self) -> i64 {
        if self.rng.percent(30) {
            1 + self.rng.below(200) as i64
        } else {
            600_000 + self.rng.below(9999) as i64
        }
    }

    /// Sends a command; the reply or the text of the error, and when it can have been carried out.
    fn send(
        &mut self,
        number: usize,
        line: &str,
        pending: Pending,
    ) -> Option<(Result<redis::Value, String>, (i64, i64))> {
        self.stories[number].pending = Some(pending);
        let before = wall_clock();
        let reply = self.client.try_send(line).ok()?;
        self.stories[number].pending = None;
        self.acknowledged += 1;
        Some((reply, (before, wall_clock())))
    }

    fn acquire(&mut self, number: usize) -> Option<()> {
        let lease = self.lease();
        let block = if self.rng.percent(30) { " BLOCK 20" } else { "" };
        let Story { key: place, owner, .. } = &self.stories[number];
        let line = format!("LOCK.ACQUIRE {} OWNER {owner} PX {lease}{block}", key(*place));
        let sent = Instant::now();
        let (reply, (before, after)) =
            self.send(number, &line, Pending::Acquire { lease, at: wall_clock() })?;
        let story = &mut self.stories[number];
        story.state = match grant(reply.unwrap()) {
            Some(grant) => {
                if grant.holds == 1 {
                    self.grants.push(Granted { sent, received: Instant::now(), fence: grant.fence });
                }
                let ends = (before + grant.lease, after + grant.lease);
                State::Held { fence: Some(grant.fence), holds: grant.holds, ends }
            }
            None => State::Free,
        };
        Some(())
    }

    fn extend(&mut self, number: usize) -> Option<()> {
        let lease = self.lease();
        let Story { key: place, owner, .. } = &self.stories[number];
        let line = format!("LOCK.EXTEND {} {owner} PX {lease}", key(*place));
        let (reply, (before, after)) =
            self.send(number, &line, Pending::Extend { lease, at: wall_clock() })?;
        let State::Held { fence, holds, .. } = self.stories[number].state else { return Some(()) };
        self.stories[number].state = match reply {
            Ok(_) => State::Held { fence, holds, ends: (before + lease, after + lease) },
            Err(error) => self.lapsed(number, &error, after),
        };
        Some(())
    }

    fn release(&mut self, number: usize, all: bool) -> Option<()> {
        let Story { key: place, owner, .. } = &self.stories[number];
        let line = format!("LOCK.RELEASE {} {owner} {}", key(*place), if all { "ALL" } else { "" });
        let (reply, (_, after)) = self.send(number, &line, Pending::Release { all })?;
        let State::Held { fence, ends, .. } = self.stories[number].state else { return Some(()) };
        self.stories[number].state = match reply.map(convert) {
            Ok(0) => State::Free,
            Ok(holds) => State::Held { fence, holds, ends },
            Err(error) => self.lapsed(number, &error, after),
        };
        Some(())
    }

    /// An owner is told that it has lost a lock: its lease must be over.
    #[track_caller]
    fn lapsed(&self, number: usize, error: &str, now: i64) -> State {
        let story = &self.stories[number];
        assert!(error.starts_with("NOTHELD "), "{story:?}: {error}");
        assert!(story.state.may_have_lapsed(now), "{story:?}: {error} at {now}");
        State::Free
    }
}

/// Who holds the lock, and how.
fn holder(client: &mut Client, key: &str) -> Option<(String, State)> {
    // First, so that it is not gone when the lease is asked for.
    let ends: i64 = client.ask(&format!("PEXPIRETIME {key}"));
    let grant = client.holder(key)?;
    let ends = (ends - client.ttl_beyond_lease(), ends);
    Some((grant.owner, State::Held { fence: Some(grant.fence), holds: grant.holds, ends }))
}

/// A grant that was acknowledged before another was asked for has the lower fence.
#[track_caller]
fn fences_rise(mut grants: Vec<Granted>) {
    let mut sent: Vec<_> = grants.iter().map(|grant| (grant.sent, grant.fence)).collect();
    sent.sort();
    grants.sort_by_key(|grant| grant.received);
    let (mut earlier, mut last) = (grants.iter().peekable(), 0);
    for (sent, fence) in sent {
        while let Some(grant) = earlier.next_if(|grant| grant.received < sent) {
            last = last.max(grant.fence);
        }
        assert!(fence > last, "{fence} after {last}");
    }
}

#[test]
fn killed_at_any_moment() {
    let kills = size(3, 50);
    let mut rng = Rng::new();
    let mut server = Setup::new()
        .set("appendonly", "yes")
        .set("appendfsync", "always")
        .set("auto-aof-rewrite-percentage", "50")
        .set("auto-aof-rewrite-min-size", "32kb")
        .start();
    let (mut acknowledged, mut granted, mut held, mut on_the_way, mut last) = (0, 0, 0, 0, 0);
    for round in 0..kills {
        let mut workers: Vec<_> = (0..THREADS)
            .map(|number| Worker {
                client: server.client(),
                rng: rng.fork(),
                name: format!("{round}-{number}"),
                stories: Vec::new(),
                grants: Vec::new(),
                acknowledged: 0,
            })
            .collect();
        let moment = Duration::from_micros(30_000 + rng.below(400_000) as u64);
        thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(|| worker.run());
            }
            thread::sleep(moment);
            server.kill();
        });
        server.relaunch();

        let mut client = server.client();
        let holders: Vec<_> = (0..KEYS).map(|number| holder(&mut client, &key(number))).collect();
        let now = wall_clock();
        for story in workers.iter().flat_map(|worker| &worker.stories) {
            let actual = match &holders[story.key] {
                Some((owner, state)) if *owner == story.owner => *state,
                _ => State::Free,
            };
            story.check(actual, now);
        }
        for (number, (owner, _)) in holders.iter().enumerate().filter_map(|(n, h)| Some((n, h.as_ref()?))) {
            let known = |story: &Story| story.key == number && story.owner == *owner;
            assert!(workers.iter().flat_map(|worker| &worker.stories).any(known), "{owner} never asked");
        }
        held += holders.iter().flatten().count();
        on_the_way += workers.iter().flat_map(|w| &w.stories).filter(|story| story.pending.is_some()).count();
        acknowledged += workers.iter().map(|worker| worker.acknowledged).sum::<usize>();
        let grants: Vec<_> = workers.into_iter().flat_map(|worker| worker.grants).collect();
        granted += grants.len();
        let before = grants.iter().map(|grant| grant.fence).max().unwrap_or(0);
        assert!(grants.iter().all(|grant| grant.fence > last));
        fences_rise(grants);
        last = client.acquire("next", "").unwrap().fence;
        assert!(last > before, "{last} after {before}");
        for number in 0..KEYS {
            client.ask::<()>(&format!("LOCK.BREAK {}", key(number)));
        }
        client.ask::<()>("LOCK.BREAK next");
    }
    assert!(granted > kills && on_the_way > 0, "{granted} grants, {on_the_way} on the way");
    figure(
        "killed under load, appendfsync always",
        format_args!(
            "{kills} kills, {acknowledged} commands acknowledged, {granted} of them grants, {held} locks held and \
             {on_the_way} commands on the way at the kills"
        ),
    );
}
