//! Scenes: clients send commands to the small server. The test compares the replies, the messages and the state of the locks with a file. A
//! scene begins with `#`. The left half of a line is the command. After `=>` comes its result; then, if they have changed, the locks with
//! their holders (after `|`) and the waiters (after `<`).
//!
//! To add a scene, write its commands into the file and run the test with `INSTA_UPDATE=always`: this writes the right halves.
//!
//! - A digit at the start is the connection, by default 0. `k`, `l` and `m` are keys; `k,l` stands for two of them, as in `LOCK.MACQUIRE`.
//!   `k a` is the owner `a` at the lock `k`. A lease without `px` is 60 s.
//! - Fences are numbered as they first appear: `#1`, `#2`.
//! - A command with `!` in front is in the same step as the next command. `due`, `answer` and `free` do only a part of the due work.
//! - Replicas receive nothing, unless `acks all` comes first; `acks mark` acknowledges what had been sent at `mark`, `acks now 1` stands
//!   for two replicas, of which one has everything and one nothing.

mod commands;

use super::server::{Conn, KEYS, Queued, Reply, Rules, Server};
use crate::lock::{Deadline, Fence, Grant, Millis, Owner, Slot};
use crate::waiting::replication::Offset;
use crate::waiting::{Link, Message, MessageKind};
use commands::Words;

const START: Millis = 1_700_000_000_000;
const LEASE: Millis = 60_000;

/// A scene that is being played.
struct Scene {
    server: Server,
    rules: Rules,
    now: Millis,
    /// The fences that have appeared, in this order.
    fences: Vec<Fence>,
    /// The state that was shown last.
    shown: String,
    /// How much had been sent to replicas at the command `mark`.
    mark: Offset,
}

impl Scene {
    fn new() -> Self {
        let (rules, server) = (Rules { claim: 1_000, ..Rules::PLAIN }, Server::new(10));
        Self { server, rules, now: START, fences: Vec::new(), shown: "free".into(), mark: 0 }
    }

    /// Runs a command. Returns its result.
    fn run(&mut self, line: &str) -> String {
        let mut words = Words(line.split_whitespace().collect());
        let goes_on = words.flag("!");
        let conn = words.0.front().and_then(|word| word.parse::<Conn>().ok());
        words.0.drain(..usize::from(conn.is_some()));
        let reply = self.command(conn.unwrap_or(0), &mut words);
        assert!(words.0.is_empty(), "{line}: {:?} is too much", words.0);
        let mut told = vec![reply];
        if !goes_on {
            let answers = self.server.run_all_due(self.rules, self.now);
            told.extend(self.told(answers));
        }
        self.server.check();
        let state = self.state();
        let mut text = told.join("; ");
        if state != self.shown {
            text = format!("{text} | {state}");
            self.shown = state;
        }
        text.trim().into()
    }

    /// Returns the number of a fence. A new fence must be greater than all earlier ones, unless it belongs to the same grants.
    fn named(&mut self, fence: Fence) -> String {
        let place = self.fences.iter().position(|known| *known == fence).unwrap_or_else(|| {
            assert!(self.fences.iter().all(|known| *known < fence), "a fence below an earlier one");
            self.fences.push(fence);
            self.fences.len() - 1
        });
        format!("#{}", place + 1)
    }

    fn got(&mut self, fence: Fence, holds: u32, slot: Option<Slot>) -> String {
        let holds = if holds > 1 { format!("*{holds}") } else { String::new() };
        let slot = slot.map_or(String::new(), |slot| format!(" slot {}", slot.get()));
        format!("{}{holds}{slot}", self.named(fence))
    }

    /// Returns the lease, unless it is the usual one.
    fn lease(&self, deadline: Deadline) -> String {
        match deadline.left(self.now) {
            LEASE => String::new(),
            left => format!(" for {left} ms"),
        }
    }

    fn reply(&mut self, reply: &Reply) -> String {
        match reply {
            Reply::Granted { fence, holds, slot, deadline } => {
                self.got(*fence, *holds, *slot) + &self.lease(*deadline)
            }
            Reply::All(all, deadline) => {
                let all: Vec<_> = all.iter().map(|got| self.got(got.fence, got.holds, got.slot)).collect();
                all.join(", ") + &self.lease(*deadline)
            }
            Reply::NoReentry(why) => format!("{why:?}"),
            Reply::Cycle(cycle) => {
                let link =
                    |Link { waiter: waits, other, .. }: &Link| format!("{} -> {}", name(waits), name(other));
                format!("DEADLOCK {}", cycle.iter().map(link).collect::<Vec<_>>().join(", "))
            }
            Reply::Extended(until) => format!("{} ms", until.left(self.now)),
            other => format!("{other:?}").to_uppercase(),
        }
    }

    /// Returns the answers to waiters, and then the messages.
    fn told(&mut self, answers: Vec<(Conn, Reply)>) -> Vec<String> {
        let mut told: Vec<_> =
            answers.iter().map(|(conn, reply)| format!("{conn}: {}", self.reply(reply))).collect();
        for Message { kind, owner, .. } in std::mem::take(&mut self.server.messages) {
            let kind = match kind {
                MessageKind::Granted(fence) => format!("granted {}", self.named(fence)),
                MessageKind::Start { fence, lease, slot, number } => {
                    format!("start {} for {lease} ms, number {number}", self.got(fence, 1, slot))
                }
                MessageKind::Timeout => "timeout".into(),
                MessageKind::Gone => "gone".into(),
                MessageKind::Lost(fence) => format!("lost {}", self.named(fence)),
                MessageKind::Wanted(fence) => format!("wanted {}", self.named(fence)),
            };
            told.push(format!("{kind} {}", owner.text().as_ref().escape_ascii()));
        }
        told
    }

    /// Returns the locks that are held or waited for.
    fn state(&mut self) -> String {
        let mut all = Vec::new();
        for (lock, key) in KEYS.iter().enumerate() {
            let held: Vec<(Grant, Deadline)> = self
                .server
                .holders_of(lock, self.now)
                .iter()
                .map(|held| (held.grant.clone(), held.deadline))
                .collect();
            let mut shown = Vec::new();
            for (grant, _) in &held {
                let room = match grant.room().most() {
                    Some(1) => String::new(),
                    Some(most) => format!("/{most}"),
                    None => "/*".into(),
                };
                let session = self.server.session_of(lock, grant.fence());
                let session = session.map_or(String::new(), |conn| format!("@{conn}"));
                let got = self.got(grant.fence(), grant.holds(), None);
                shown.push(format!("{}{got}{room}{session}", name(&grant.owner())));
            }
            let queue = self.server.asks_of(lock).into_iter().map(|asked| match asked.by {
                Queued::Blocked(_) => name(&asked.owner),
                Queued::Notified(_) => name(&asked.owner) + "?",
            });
            let queue: Vec<_> = queue.collect();
            if !held.is_empty() || !queue.is_empty() {
                let queue = if queue.is_empty() { String::new() } else { format!(" < {}", queue.join(" ")) };
                all.push(format!("{}: {}{queue}", key.escape_ascii(), shown.join(" ")));
            }
        }
        if all.is_empty() { "free".into() } else { all.join(", ") }
    }
}

fn name(owner: &Owner<'_>) -> String {
    owner.text().as_ref().escape_ascii().to_string()
}

/// Plays all scenes of a file, from the left halves of its lines.
fn play(text: &str) -> String {
    let mut scene = Scene::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let command = line.split_once("=>").map_or(line, |(command, _)| command).trim();
        if command.is_empty() || command.starts_with('#') {
            scene = if command.is_empty() { scene } else { Scene::new() };
            lines.push(command.into());
            continue;
        }
        let outcome = scene.run(command);
        lines.push(if outcome.is_empty() { command.into() } else { format!("{command:<42} => {outcome}") });
    }
    lines.join("\n")
}

/// Plays the scenes of a file, and compares the results with the file.
fn compare(name: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/waiting/tests/scenes");
    let text = std::fs::read_to_string(folder.join(format!("{name}.snap"))).unwrap();
    let (_head, scenes) = text.split_once("\n---\n").expect("the head of a snapshot");
    let played = play(scenes);
    assert!(played.starts_with("# ") && played.contains(" => "), "no scenes");
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(".");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, played));
}

#[test]
fn scenes_of_several_holders() {
    compare("room");
}

#[test]
fn scenes_of_freezes_and_lost_clients() {
    compare("rare");
}

#[test]
fn scenes_of_replicas() {
    compare("sync");
}

#[test]
fn scenes_of_several_locks() {
    compare("several");
}

#[test]
fn scenes_of_waiters_and_sessions() {
    compare("waiting");
}
