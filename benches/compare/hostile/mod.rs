//! What one client with ordinary rights on a few keys can do to all others: each attack on a server of its own, the longest `PING`
//! of another client meanwhile, and whatever else it leads to.
//!
//! Most attacks are a single command that makes much work in one step. How much it may make depends on how many locks a command
//! may name. Where that is a setting, they run twice: as it is by default, and with as many as there may be.

mod growth;
mod payload;
mod refusals;
mod requests;
mod search;
mod several;
mod stage;
mod time;

use stage::{Seen, Stage};

use crate::line::Outcome;
use crate::report::{Attack, Report};
use crate::rounds::{Plan, progress};
use crate::server::Setup;
use crate::stats::Spread;

/// How many locks a command names at most, whatever is set.
const MOST_KEYS: usize = 1000;
const SETTING: &str = "lock.max-keys";

/// Prepares an attack, does it, and notes what it leads to.
type Attempt = dyn Fn(&mut Stage) -> Outcome<()>;

/// An attack.
struct Row {
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
    fn new(what: impl Into<String>, run: impl Fn(&mut Stage) -> Outcome<()> + 'static) -> Self {
        Self { what: what.into(), run: Box::new(run), allowed: None, has_file: false, is_long: false }
    }

    fn with_file(self) -> Self {
        Self { has_file: true, ..self }
    }

    fn once(self) -> Self {
        Self { is_long: true, ..self }
    }

    /// One round, on a server of its own.
    fn play(&self) -> Seen {
        let mut stage = Stage::new(Setup { aof: self.has_file, ..Setup::MODULE });
        let setting = self.allowed.map(|keys| format!("CONFIG SET {SETTING} {keys}"));
        let set = setting.map_or(Ok(()), |line| stage.client.say(&line).map(|_| ()));
        if let Err(error) = set.and_then(|()| (self.run)(&mut stage)) {
            stage.note(error);
        }
        if !stage.server.is_alive() {
            stage.note("THE SERVER DIED");
        } else if let Err(error) = stage.grants() {
            stage.note(format!("GRANTS NOTHING ANY MORE: {error}"));
        }
        stage.seen
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let mut rows = refusals::rows(plan);
    rows.extend(search::rows(plan));
    rows.push(time::upgrades());
    rows.extend(several::expiry());
    for (keys, allowed) in keys() {
        let with = |row: Row| Row { allowed, ..row };
        rows.extend(time::rows(keys).into_iter().map(with));
        rows.extend(search::rows_of(plan, keys).into_iter().map(with));
        rows.extend(several::rows(plan, keys).into_iter().map(with));
        rows.extend(growth::rows_of(plan, keys).into_iter().map(with));
    }
    rows.extend(growth::rows(plan));
    for row in rows {
        let rounds = if row.is_long { 1 } else { plan.pick(3, 1) };
        let seen = (0..rounds).map(|_| row.play()).collect();
        let attack = attack(row.what, seen);
        progress(&format!("  hostile, {}", attack.cells().join(" | ")));
        report.attacks.push(attack);
    }
}

/// How many locks a command may name: as the server is, and as it can be set.
fn keys() -> Vec<(usize, Option<usize>)> {
    let stage = Stage::new(Setup::MODULE);
    match stage.server.setting(SETTING).map(|value| value as usize) {
        Some(default @ 1..MOST_KEYS) => vec![(default, None), (MOST_KEYS, Some(MOST_KEYS))],
        _ => vec![(MOST_KEYS, None)],
    }
}

/// Of several rounds. The remark is that of the one in the middle.
fn attack(what: String, mut rounds: Vec<Seen>) -> Attack {
    rounds.sort_by(|one, other| one.longest.unwrap_or(0.0).total_cmp(&other.longest.unwrap_or(0.0)));
    let spread = |of: fn(&Seen) -> Option<f64>| {
        let values: Vec<f64> = rounds.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| Spread::of(values))
    };
    let (longest, quiet) = (spread(|seen| seen.longest), spread(|seen| seen.quiet));
    Attack { what, longest, quiet, remark: rounds[rounds.len() / 2].notes.join("; ") }
}
