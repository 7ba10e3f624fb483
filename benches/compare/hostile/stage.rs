//! An attack: the server that it is done to, what others feel of it, and what comes of several rounds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use procfs::process::Process;

use super::requests::CHANNEL;
use crate::line::{Line, Outcome};
use crate::ping::Ping;
use crate::report::Attack;
use crate::server::{Server, Setup};
use crate::stats::Spread;

pub(super) const SETTING: &str = "lock.max-keys";

/// Prepares an attack, does it, and notes what it leads to.
type Attempt = dyn Fn(&mut Stage) -> Outcome<()>;

pub(super) struct Row {
    what: String,
    run: Box<Attempt>,
    /// What `lock.max-keys` is set to first, where a command is to name more locks than it allows by default.
    allowed: Option<usize>,
    /// The server writes an append-only file.
    has_file: bool,
    /// It takes too long to be done more than once.
    is_long: bool,
}

impl Row {
    pub(super) fn new(what: impl Into<String>, run: impl Fn(&mut Stage) -> Outcome<()> + 'static) -> Self {
        Self { what: what.into(), run: Box::new(run), allowed: None, has_file: false, is_long: false }
    }

    pub(super) fn with_file(self) -> Self {
        Self { has_file: true, ..self }
    }

    pub(super) fn once(self) -> Self {
        Self { is_long: true, ..self }
    }

    pub(super) fn allowing(self, keys: Option<usize>) -> Self {
        Self { allowed: keys, ..self }
    }

    /// Some rounds, each on a server of its own. The remark is that of the one in the middle.
    pub(super) fn attack(self, rounds: usize) -> Attack {
        let rounds = if self.is_long { 1 } else { rounds };
        let mut seen: Vec<Seen> = (0..rounds).map(|_| self.play()).collect();
        seen.sort_by(|one, other| one.longest.unwrap_or(0.0).total_cmp(&other.longest.unwrap_or(0.0)));
        let spread = |of: fn(&Seen) -> Option<f64>| {
            let values: Vec<f64> = seen.iter().filter_map(of).collect();
            (!values.is_empty()).then(|| Spread::of(values))
        };
        let (longest, quiet) = (spread(|seen| seen.longest), spread(|seen| seen.quiet));
        Attack { what: self.what, longest, quiet, remark: seen[rounds / 2].notes.join("; ") }
    }

    fn play(&self) -> Seen {
        let mut stage = Stage::new(Setup { aof: self.has_file, ..Setup::MODULE });
        let set = self.allowed.map_or(Ok(()), |keys| stage.say(&format!("CONFIG SET {SETTING} {keys}")));
        if let Err(error) = set.and_then(|()| (self.run)(&mut stage)) {
            stage.note(error);
        }
        if !stage.server.process.borrow_mut().is_alive() {
            stage.note("THE SERVER DIED");
        } else if let Err(error) = stage.grants() {
            stage.note(format!("GRANTS NOTHING ANY MORE: {error}"));
        }
        stage.seen
    }
}

/// How long the server is watched without an attack.
const QUIET: Duration = Duration::from_secs(1);
/// How long it is watched after one: what that leaves to timers comes within that time.
const AFTERWARDS: Duration = Duration::from_millis(500);
/// Between two `PING`s. Without a pause they would take a processor of their own.
const PAUSE: Duration = Duration::from_micros(200);
/// How many requests go out at once. Those for 1,000 locks are long.
const BATCH: usize = 50;
const IDLE: Duration = Duration::from_secs(2);

pub(super) struct Stage {
    pub(super) server: Server,
    pub(super) client: Line,
    /// Connections with as many places as one may have.
    full: Vec<Line>,
    has_file: bool,
    pub(super) seen: Seen,
}

/// What was seen of an attack.
#[derive(Default)]
pub(super) struct Seen {
    /// The longest `PING` of another client during the attack, and before it, in ms.
    pub(super) longest: Option<f64>,
    pub(super) quiet: Option<f64>,
    pub(super) notes: Vec<String>,
}

impl Stage {
    pub(super) fn new(setup: Setup) -> Self {
        let server = Server::start(setup);
        let client = Line::new(server.port);
        Self { server, client, full: Vec::new(), has_file: setup.aof, seen: Seen::default() }
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.seen.notes.push(note.into());
    }

    pub(super) fn connect(&self) -> Line {
        Line::new(self.server.port)
    }

    /// Sends a request that is not to be refused.
    pub(super) fn ask(&mut self, request: &[u8]) -> Outcome<()> {
        self.client.ask(request).map(|_| ())
    }

    /// The same of words without spaces.
    pub(super) fn say(&mut self, line: &str) -> Outcome<()> {
        self.client.say(line).map(|_| ())
    }

    /// A client that hears what places are told.
    pub(super) fn listener(&self) -> Outcome<Line> {
        let mut client = self.connect();
        client.say(&format!("SUBSCRIBE {CHANNEL}"))?;
        Ok(client)
    }

    /// How many may hold a lock of those, beside so many others.
    pub(super) fn holders(&mut self, wanted: usize, others: usize) -> usize {
        let most = self.server.setting("lock.max-holders").map_or(0, |most| most as usize);
        if most == 0 || wanted + others <= most {
            return wanted;
        }
        let holders = most.saturating_sub(others);
        self.note(format!("only {holders} holders (lock.max-holders)"));
        holders
    }

    /// Takes places. Where one connection may have no more of them, another one goes on: whoever attacks has as many as it likes.
    pub(super) fn take_places(&mut self, requests: impl IntoIterator<Item = Vec<u8>>) -> Outcome<()> {
        for request in requests {
            match self.client.ask(&request) {
                Err(refusal) if refusal.contains("MAXPLACES") => {
                    let fresh = self.connect();
                    self.full.push(std::mem::replace(&mut self.client, fresh));
                    self.client.ask(&request)?;
                }
                other => _ = other?,
            }
        }
        Ok(())
    }

    /// Sends many requests, some at a time, up to the first that is refused, or not granted.
    pub(super) fn all(&mut self, requests: impl IntoIterator<Item = Vec<u8>>) -> Outcome<()> {
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            let some: Vec<_> = requests.by_ref().take(BATCH).collect();
            self.client.send(&some.concat())?;
            let replies: Vec<_> = some.iter().map(|_| self.client.reply()).collect();
            for reply in replies {
                if reply? == b"*-1\r\n" {
                    return Err("not granted".into());
                }
            }
        }
        Ok(())
    }

    /// Does something while another client sends `PING` again and again; the longest, in ms, if the server is not gone.
    fn watch<R>(&mut self, act: impl FnOnce(&mut Self) -> R) -> (R, Option<f64>) {
        let over = AtomicBool::new(false);
        let ping = Ping::new(self.server.port);
        thread::scope(|scope| {
            let pings = scope.spawn(|| longest_until(ping, &over));
            let result = act(self);
            over.store(true, Ordering::Relaxed);
            (result, pings.join().expect("the other client's end"))
        })
    }

    /// Takes the server's own longest `PING`.
    pub(super) fn watch_quiet(&mut self) {
        ((), self.seen.quiet) = self.watch(|_| thread::sleep(QUIET));
    }

    /// Takes the longest `PING` while that goes on.
    pub(super) fn attack<R>(&mut self, attack: impl FnOnce(&mut Self) -> Outcome<R>) -> Outcome<R> {
        if self.seen.quiet.is_none() {
            self.watch_quiet();
        }
        let result;
        (result, self.seen.longest) = self.watch(|stage| {
            let result = attack(stage);
            thread::sleep(AFTERWARDS);
            result
        });
        result
    }

    /// The same of one request, on a connection of its own.
    pub(super) fn attack_by(&mut self, request: &[u8]) -> Outcome<()> {
        let mut asker = self.connect();
        self.attack(|_| asker.ask(request)).map(|_| ())
    }

    /// Notes what the server does while everybody is idle.
    pub(super) fn note_idle(&mut self) {
        thread::sleep(AFTERWARDS);
        let (cpu, bytes) = (used(&self.server), file_bytes(&self.server));
        thread::sleep(IDLE);
        let seconds = IDLE.as_secs_f64();
        let busy = (used(&self.server) - cpu) / seconds * 100.0;
        let written = (file_bytes(&self.server) - bytes) / seconds / 1e6;
        self.note(format!("idle: {busy:.1} % of a processor"));
        if self.has_file {
            self.note(format!("{written:.2} MB/s of append-only file"));
        }
    }

    /// Whether the server still grants a lock that nobody has touched.
    pub(super) fn grants(&self) -> Outcome<()> {
        self.connect().say("LOCK.ACQUIRE untouched PX 1").map(|_| ())
    }
}

/// How much processor time a server has used, in seconds, without asking it.
fn used(server: &Server) -> f64 {
    let stat =
        Process::new(server.process.borrow().child.0.id().cast_signed()).and_then(|process| process.stat());
    stat.map_or(0.0, |stat| (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

/// How long its append-only file is, in bytes.
fn file_bytes(server: &Server) -> f64 {
    let files =
        fs::read_dir(server.process.borrow().folder().join("appendonlydir")).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.len() as f64).sum()
}

/// The longest `PING` until it is over, in ms; none: the server is gone.
fn longest_until(mut ping: Ping, over: &AtomicBool) -> Option<f64> {
    let mut longest: f64 = 0.0;
    while !over.load(Ordering::Relaxed) {
        longest = longest.max(ping.ping().ok()?);
        thread::sleep(PAUSE);
    }
    Some(longest)
}
