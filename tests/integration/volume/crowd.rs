//! Clients that ask, hold and give back as fast as they can: many in a thread, each with a connection of its own.

use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Range;
use std::thread::sleep;

use redis::Value;

use super::table::{Belief, EACH, FOR_EVER, Micros, Table};
use crate::several::grants;
use crate::support::{Link, Outcome, PATIENCE, Rng, grant};

/// Clients that never wait, in one thread: all of them ask, then all of them hear.
pub(super) fn work(table: &Table, port: u16, numbers: Range<usize>, mut rng: Rng) {
    let mut members: Vec<_> = numbers.map(|number| Member::new(table, port, number, rng.fork())).collect();
    while !table.is_over() {
        members.iter_mut().for_each(|member| member.ask(""));
        members.iter_mut().for_each(Member::hear);
    }
}

/// One client that waits for its locks as a rule, and goes away while it waits now and then.
pub(super) fn patient(table: &Table, port: u16, number: usize, mut rng: Rng) {
    let mut member = Member::new(table, port, number, rng.fork());
    while !table.is_over() {
        member.ask(&format!("BLOCK {}", 1 + rng.below(100)));
        if matches!(member.doing, Doing::Asks(_)) && rng.below(500) == 0 {
            sleep(rng.up_to(3));
            member.close();
        }
        member.hear();
    }
}

/// What was asked for.
struct Ask {
    locks: Vec<usize>,
    /// The greatest fence of each that anybody was told before.
    told: Vec<i64>,
    owner: String,
    room: usize,
    session: bool,
    waits: bool,
    asked: Micros,
}

/// What is held: one belief for each lock.
struct Held {
    grants: Vec<(usize, Belief)>,
    session: bool,
}

/// What a client is at.
#[derive(Default)]
enum Doing {
    #[default]
    Nothing,
    Asks(Ask),
    Holds(Held),
    /// Since that time.
    Extends(Held, Micros),
    GivesBack(Held),
}

struct Member<'t> {
    table: &'t Table,
    port: u16,
    number: usize,
    turn: usize,
    rng: Rng,
    link: Option<Link>,
    doing: Doing,
    counts: BTreeMap<&'static str, usize>,
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.table.add(take(&mut self.counts));
    }
}

impl<'t> Member<'t> {
    fn new(table: &'t Table, port: u16, number: usize, rng: Rng) -> Self {
        let (link, doing, counts) = (None, Doing::Nothing, BTreeMap::new());
        Self { table, port, number, turn: 0, rng, link, doing, counts }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn begin(&mut self, line: &str) {
        let port = self.port;
        let link = self.link.get_or_insert_with(|| Link::to(port, PATIENCE));
        if !link.begin(line) {
            self.table.fault(format!("the connection takes no more: {line}"));
        }
    }

    /// The connection ends, as where a client is killed. What hangs on it ends with it; what has a lease stays.
    fn close(&mut self) {
        if let Doing::Holds(held) = take(&mut self.doing)
            && held.session
        {
            self.leave(&held);
        }
        self.link = None;
        self.count("connections closed");
    }

    fn leave(&self, held: &Held) {
        for (lock, belief) in &held.grants {
            self.table.leave(*lock, &belief.owner);
        }
    }

    /// Sends the next command, if there is one to send.
    fn ask(&mut self, block: &str) {
        match take(&mut self.doing) {
            Doing::Nothing => self.acquire(block),
            Doing::Holds(mut held) => match self.rng.below(2000) {
                0 => {
                    self.doing = Doing::Holds(held);
                    self.close();
                }
                // Forgets it: it lapses.
                1..6 if !held.session => self.count("forgotten"),
                6..200 if !held.session => {
                    let asked = self.table.now();
                    let lease = self.lease();
                    // The new lease may be the shorter one, and be over before its answer is heard.
                    let end = self.table.end(asked, lease);
                    for (lock, belief) in &mut held.grants {
                        belief.until = belief.until.min(end);
                        self.table.extend(*lock, belief);
                    }
                    self.begin(&line("EXTEND", &held, &format!("PX {lease}")));
                    self.doing = Doing::Extends(held, asked);
                }
                200..1000 => self.doing = Doing::Holds(held),
                _ => {
                    self.leave(&held);
                    self.begin(&line("RELEASE", &held, ""));
                    self.doing = Doing::GivesBack(held);
                }
            },
            other => self.doing = other,
        }
    }

    /// In ms.
    fn lease(&mut self) -> i64 {
        50 + self.rng.below(150) as i64
    }

    fn acquire(&mut self, block: &str) {
        self.turn += 1;
        let owner = format!("{}-{}", self.number, self.turn);
        let first = EACH * self.rng.below(3);
        let mut locks = vec![first + self.rng.below(EACH)];
        if first == 2 * EACH {
            let more = (0..self.rng.below(3)).map(|_| first + self.rng.below(EACH));
            locks.extend(more.collect::<Vec<_>>());
            locks.sort_unstable();
            locks.dedup();
        }
        let room = match (first / EACH, self.rng.below(4)) {
            (1, 0) | (2, 1) => usize::MAX,
            (1, 1) | (2, 0) => 2,
            (1, 2) => 5,
            _ => 1,
        };
        let session = self.rng.percent(5);
        let options = match room {
            1 => String::new(),
            usize::MAX => "SHARED".into(),
            room => format!("LIMIT {room}"),
        };
        let session_option = if session { "SESSION" } else { "" };
        let lease = self.lease();
        let rest = format!("OWNER {owner} PX {lease} {block} {options} {session_option}");
        let line = match &locks[..] {
            [lock] => format!("LOCK.ACQUIRE v{lock} {rest}"),
            _ => format!("LOCK.MACQUIRE {} {rest}", names(locks.iter().copied())),
        };
        let told = locks.iter().map(|lock| self.table.told(*lock)).collect();
        let (waits, asked) = (!block.is_empty(), self.table.now());
        self.begin(&line);
        self.doing = Doing::Asks(Ask { locks, told, owner, room, session, waits, asked });
    }

    /// Reads the answer, if one is to come.
    fn hear(&mut self) {
        if matches!(self.doing, Doing::Nothing | Doing::Holds(_)) {
            return;
        }
        let outcome = self.link.as_mut().map_or(Outcome::Gone, Link::finish);
        self.count("commands");
        self.doing = match (take(&mut self.doing), outcome) {
            (Doing::Asks(ask), Outcome::Reply(value)) => self.told(ask, value),
            (Doing::Extends(held, asked), Outcome::Reply(Value::Int(lease))) => {
                self.count("extended");
                self.extended(held, asked, lease)
            }
            (Doing::GivesBack(_), Outcome::Reply(_)) => {
                self.count("released");
                Doing::Nothing
            }
            (Doing::Extends(held, _) | Doing::GivesBack(held), Outcome::Refused(error))
                if error.starts_with("NOTHELD ") =>
            {
                self.count("lapsed");
                for (_, belief) in &held.grants {
                    self.table.refused(belief, &error);
                }
                Doing::Nothing
            }
            (_, outcome) => {
                self.table.fault(format!("an answer that does not belong here: {outcome:?}"));
                Doing::Nothing
            }
        };
    }

    /// What became of a question: what is held is checked.
    fn told(&mut self, ask: Ask, value: Value) -> Doing {
        let Ask { locks, told, owner, room, session, waits, asked } = ask;
        let (fences, slots, lease) = if let [_] = locks[..] {
            let Some(grant) = grant(value) else {
                self.count("null");
                return Doing::Nothing;
            };
            (vec![grant.fence], vec![grant.slot], grant.lease)
        } else {
            let Some(grants) = grants(value) else {
                self.count("null");
                return Doing::Nothing;
            };
            self.count("several");
            let slots = grants.slots.into_iter().map(Some).chain(std::iter::repeat(None));
            let slots = slots.take(locks.len()).collect();
            (grants.fences, slots, grants.lease)
        };
        self.count("grants");
        self.count(if waits { "granted after a wait" } else { "granted at once" });
        if room > 1 {
            self.count("shared");
        }
        // A waiter may be told when its lease is over already, as the answer says: then no session has begun.
        let until = if session && lease > 0 {
            self.count("by a session");
            FOR_EVER.as_micros() as Micros
        } else {
            self.table.end(asked, lease)
        };
        let mut grants = Vec::new();
        for (((lock, fence), slot), told) in locks.into_iter().zip(fences).zip(slots).zip(told) {
            let belief = Belief { owner: owner.clone(), fence, room, slot, asked, until };
            self.table.enter(lock, &belief, told);
            grants.push((lock, belief));
        }
        Doing::Holds(Held { grants, session: session && lease > 0 })
    }

    fn extended(&self, mut held: Held, asked: Micros, lease: i64) -> Doing {
        for (lock, belief) in &mut held.grants {
            (belief.asked, belief.until) = (asked, self.table.end(asked, lease));
            self.table.extend(*lock, belief);
        }
        Doing::Holds(held)
    }
}

/// How many, and their names.
fn names(locks: impl Iterator<Item = usize>) -> String {
    let names: Vec<String> = locks.map(|lock| format!("v{lock}")).collect();
    format!("{} {}", names.len(), names.join(" "))
}

/// A command about what is held.
fn line(command: &str, held: &Held, rest: &str) -> String {
    match &held.grants[..] {
        [(lock, belief)] => format!("LOCK.{command} v{lock} {} {rest}", belief.owner),
        grants => {
            let owner = &grants[0].1.owner;
            format!("LOCK.M{command} {} {owner} {rest}", names(grants.iter().map(|(lock, _)| *lock)))
        }
    }
}
