//! Makes programs at random: some that set up, each of them again and again, over a few keys, owners and options; then some that
//! attack.

use super::program::{Program, Step, spell};
use crate::support::Rng;

/// How often something is sent.
const TIMES: [usize; 5] = [1, 10, 100, 1_000, 10_000];
/// What several locks are.
const SETS: [&str; 5] = ["2 k z", "16 k*16", "100 k*100", "100 k$ k*99", "100 k z$.*99"];
const LARGE: [&str; 2] = ["1000 k*1000", "1000 k$ k*999"];
const OWNERS: [&str; 4] = ["o$", "o", "h", "w$"];
const CONNECTIONS: [&str; 4] = ["a", "b", "c", "d"];
/// How all begin: somebody hears the messages, and the connections of one user can be ended by a command.
const HEAD: &str = "1 l SUBSCRIBE told
1 op ACL SETUSER gone on nopass ~* &* +@all
1 b AUTH gone x
1 b CONFIG SET lock.max-keys 100";

pub(super) struct Maker<'a> {
    random: &'a mut Rng,
    /// How many locks one step may name, all its commands together.
    most: usize,
    /// One command may name 1,000.
    large: bool,
}

impl<'a> Maker<'a> {
    pub(super) fn new(random: &'a mut Rng, most: usize) -> Self {
        let large = random.percent(30);
        Self { random, most, large }
    }

    pub(super) fn program(&mut self) -> Program {
        let head = if self.large { HEAD.replace("keys 100", "keys 1000") } else { HEAD.into() };
        let mut program = Program::parse(&head);
        if self.random.percent(20) {
            program.0.remove(0);
        }
        for _ in 0..2 + self.random.below(5) {
            let command = self.setup();
            program.0.push(self.send(command));
        }
        for _ in 0..1 + self.random.below(3) {
            program.0.extend(self.attack());
        }
        program
    }

    /// One that is known, with a step or two changed; some of them are of another one.
    pub(super) fn alter(&mut self, known: &Program, other: &Program) -> Program {
        self.large = known.to_string().contains("max-keys 1000");
        let mut program = known.clone();
        for _ in 0..1 + self.random.below(3) {
            let at = self.random.below(program.0.len());
            match self.random.below(6) {
                0 if at > 3 => _ = program.0.remove(at),
                1 => {
                    let command = self.setup();
                    let step = self.send(command);
                    program.0.insert(at, step);
                }
                2 if at > 3 => {
                    let steps = self.attack();
                    program.0.splice(at..at, steps);
                }
                3 if !other.0.is_empty() => {
                    let step = self.random.one_of(&other.0).clone();
                    program.0.insert(at, step);
                }
                _ => {
                    if let Some(Step::Send { times, command, .. }) = program.0.get_mut(at) {
                        let fits = self.times(command);
                        *times = if *times == 1 && self.random.percent(80) { 1 } else { fits };
                        if self.random.percent(50) {
                            self.reword(command);
                        }
                    }
                }
            }
        }
        program
    }

    /// As often as so many locks allow.
    fn times(&mut self, command: &str) -> usize {
        let locks = spell(command, 0).split(' ').count();
        let fits =
            TIMES.map(|times| times * locks <= self.most * 10 && times * locks.max(10) / 10 <= self.most);
        let count = fits.iter().filter(|fits| **fits).count().max(1);
        *self.random.one_of(&TIMES[..count])
    }

    fn send(&mut self, command: String) -> Step {
        let times = self.times(&command);
        let blocks = command.contains("BLOCK") && !command.contains("NOTIFY");
        // Those who are blocked have a connection each.
        let (times, by) =
            if blocks { (times.min(100), "w$") } else { (times, *self.random.one_of(&CONNECTIONS)) };
        Step::Send { times, by: by.into(), command }
    }

    fn word(&mut self, words: &[&str]) -> String {
        (*self.random.one_of(words)).into()
    }

    fn key(&mut self) -> String {
        self.word(&["k", "k", "k", "k$", "k$", "z", "k0", "z$"])
    }

    fn keys(&mut self) -> String {
        let large = self.large && self.random.percent(50);
        self.word(if large { &LARGE } else { &SETS })
    }

    fn setup(&mut self) -> String {
        let head = if self.random.percent(60) {
            format!("LOCK.ACQUIRE {}", self.key())
        } else {
            format!("LOCK.MACQUIRE {}", self.keys())
        };
        let owner = self.word(&OWNERS);
        let room = self.word(&["", "SHARED", "SHARED", "SHARED", "LIMIT 2", "LIMIT 100"]);
        let lease = self.word(&["PX 3600000", "PX 3600000", "PX 1000", "PX 300"]);
        let waits = self.word(&[
            "",
            "",
            "BLOCK 0 NOTIFY told",
            "BLOCK 0 NOTIFY told",
            "BLOCK 400 NOTIFY told",
            "BLOCK 0",
            "BLOCK 400",
            "NOTIFY told",
        ]);
        let more = self.word(&["", "", "", "ONCE", "SESSION", "DETECT", "MAXHOLD 2000"]);
        let words = [head, "OWNER".into(), owner, lease, room, waits, more];
        words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// One word of a command is another one.
    fn reword(&mut self, command: &mut String) {
        const CHANGES: [&[&str]; 7] = [
            &["SHARED", "LIMIT 2", "LIMIT 100", ""],
            &["PX 3600000", "PX 1000", "PX 300", "PX 100"],
            &["BLOCK 0", "BLOCK 400"],
            &["SESSION", "ONCE", "DETECT", ""],
            &["OWNER o$", "OWNER o", "OWNER h", "OWNER w$"],
            &["2 k z", "16 k*16", "100 k*100", "100 k$ k*99", "100 k z$.*99"],
            &[" k ", " k$ ", " z ", " k0 "],
        ];
        let words = *self.random.one_of(&CHANGES);
        if let Some(word) = words.iter().find(|word| !word.is_empty() && command.contains(**word)) {
            let new = *self.random.one_of(words);
            *command = command.replacen(word, new, 1);
        }
    }

    /// What makes work of all that: a command, several in one transaction, a close, or time that goes by.
    fn attack(&mut self) -> Vec<Step> {
        let one = |command: String| Step::Send { times: 1, by: "a".into(), command };
        match self.random.below(10) {
            0 => vec![Step::Close(self.word(&["a", "b", "c", "w$"]))],
            1 => vec![Step::Pass(*self.random.one_of(&[50, 420, 1_100]))],
            2 | 3 => {
                let count = 2 + self.random.below(2);
                let mut steps = vec![one("MULTI".into())];
                steps.extend((0..count).map(|_| one(self.strike())));
                steps.push(one("EXEC".into()));
                steps
            }
            4 | 5 => {
                let strike = self.strike();
                vec![self.send(strike)]
            }
            _ => vec![one(self.strike())],
        }
    }

    fn strike(&mut self) -> String {
        let (key, keys, owner) = (self.key(), self.keys(), self.word(&OWNERS));
        match self.random.below(18) {
            0 => format!("LOCK.RELEASE {key} {owner} ALL"),
            1 | 2 => format!("LOCK.MRELEASE {keys} {owner} ALL"),
            3 => format!("LOCK.EXTEND {key} {owner} PX 3600000"),
            4 => format!("LOCK.MEXTEND {keys} {owner} PX 3600000"),
            5 => format!("LOCK.LEAVE {key} {owner}"),
            6 => format!("LOCK.BREAK {key}"),
            7 => format!("LOCK.INFO {key} FULL"),
            8 => "LOCK.WAITS COUNT 1000".into(),
            9 => self.word(&["DEL k", "DEL k*100", "DEL k z"]),
            10 => self.word(&[
                "PEXPIRE k 1",
                "PEXPIRE k 3000000",
                "PEXPIRE k$ 3000000",
                "PEXPIRE k$ 50",
                "PERSIST k",
            ]),
            11 => self.word(&["FLUSHALL", "SWAPDB 0 1", "FLUSHDB ASYNC"]),
            12 => self.word(&["RENAME k z", "RENAME z k", "SET k x", "COPY k z"]),
            13 => "CLIENT KILL USER gone".into(),
            14 => self.word(&["INFO everything", "DUMP k", "OBJECT FREQ k", "MEMORY USAGE k"]),
            _ => self.setup(),
        }
    }
}
