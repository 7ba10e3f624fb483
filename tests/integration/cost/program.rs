//! A program for clients as text, with a step in each line. `seeds/` has some.
//!
//!     100 a LOCK.ACQUIRE k OWNER o$ SHARED    connection `a` sends the command 100 times; `$` is 0, 1, 2 ...
//!     20 a LOCK.ACQUIRE k$%10 OWNER o$/10     `$%10` is the number modulo 10, `$/10` the number divided by 10
//!     1 a LOCK.MRELEASE 3 k*3 o0              `k*3` is `k0 k1 k2`
//!     64 w$ LOCK.ACQUIRE k OWNER w$ BLOCK 0   each command has a connection of its own
//!     close a                                 closes connection `a`; `close w$` closes all that begin with `w`
//!     pass 100                                waits for 100 ms
//!     until lock_waiters 0                    waits until `INFO` shows this
//!     # a comment
//!
//! A connection is opened when it first sends something.

use std::fmt::{self, Display, Write as _};

pub(super) enum Step {
    Send {
        times: usize,
        by: String,
        command: String,
    },
    Close(String),
    /// Waits for this many ms.
    Pass(u64),
    Until {
        field: String,
        value: String,
    },
}

pub(super) struct Program(pub(super) Vec<Step>);

impl Program {
    #[track_caller]
    pub(super) fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(Step::parse).collect())
    }
}

impl Step {
    #[track_caller]
    fn parse(line: &str) -> Self {
        let mut words = line.splitn(3, ' ');
        let [first, second, rest] = [(); 3].map(|()| words.next().unwrap_or_default());
        match first {
            "close" => Self::Close(second.into()),
            "pass" => Self::Pass(second.parse().expect(line)),
            "until" => Self::Until { field: second.into(), value: rest.into() },
            times => {
                Self::Send { times: times.parse().expect(line), by: second.into(), command: rest.into() }
            }
        }
    }
}

impl Display for Step {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { times, by, command } => write!(to, "{times} {by} {command}"),
            Self::Close(by) => write!(to, "close {by}"),
            Self::Pass(ms) => write!(to, "pass {ms}"),
            Self::Until { field, value } => write!(to, "until {field} {value}"),
        }
    }
}

/// Returns the command with this number filled in.
pub(super) fn spell(command: &str, number: usize) -> String {
    let mut line = String::new();
    for word in numbered(command, number).split_whitespace() {
        match word.rsplit_once('*').and_then(|(name, count)| Some((name, count.parse::<usize>().ok()?))) {
            Some((name, count)) => (0..count).for_each(|of| write!(line, "{name}{of} ").unwrap()),
            None => write!(line, "{word} ").unwrap(),
        }
    }
    line
}

fn numbered(command: &str, number: usize) -> String {
    let mut parts = command.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let by = part
            .strip_prefix(['%', '/'])
            .map(|rest| rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len());
        let by = by.filter(|len| *len > 0).map(|len| part.split_at(1 + len));
        let (shown, rest) = match by.map(|(by, rest)| (by.split_at(1), rest)) {
            Some((("%", by), rest)) => (number % by.parse::<usize>().unwrap(), rest),
            Some(((_, by), rest)) => (number / by.parse::<usize>().unwrap(), rest),
            None => (number, part),
        };
        write!(text, "{shown}{rest}").unwrap();
    }
    text
}

#[test]
fn a_program_is_read_as_it_is_written() {
    let lines = ["100 a LOCK.ACQUIRE k OWNER o$", "close w$", "pass 20", "until lock_waiters 0"];
    for (step, line) in Program::parse(&lines.join("\n")).0.iter().zip(lines) {
        assert_eq!(step.to_string(), line);
    }
    assert_eq!(spell("LOCK.MACQUIRE 3 k$.*3 OWNER o", 7), "LOCK.MACQUIRE 3 k7.0 k7.1 k7.2 OWNER o ");
    assert_eq!(spell("a$%10 $/10b $", 42), "a2 4b 42 ");
}
