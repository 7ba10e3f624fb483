//! Tasks of one program, which share a client and what the library says to share: all on one lock, or each on its own. The
//! programs are in benches/clients.

use std::borrow::Cow;

use crate::hosts::Kind;
use crate::mixes::{self, Mix, Served};
use crate::plan::Plan;
use crate::programs::{GO, JAVA, Lock, PACKAGE, REDSYNC, RLOCK, SPRING};
use crate::report::Report;

/// It does not wait for a lock, so it can't be handed over.
const SHEDLOCK: Lock = Lock { who: "shedlock", name: "ShedLock's RedisLockProvider", host: Kind::Plain };

/// A program, and whom its tasks lock by: where they have locks of their own, and where all want one.
struct Language {
    run: &'static str,
    name: &'static str,
    alone: &'static [Lock],
    on_one: &'static [Lock],
}

const LANGUAGES: [Language; 2] = [
    Language { run: JAVA, name: "Java", alone: &[RLOCK, SPRING, SHEDLOCK], on_one: &[RLOCK, SPRING] },
    Language { run: GO, name: "Go", alone: &[REDSYNC], on_one: &[REDSYNC] },
];

const ON_ONE: [(&str, &str); 2] = [("one-8", "8 tasks"), ("one-100", "100 tasks")];
const ALONE: [(&str, &str); 3] = [
    ("own-1", "1 task on a lock of its own"),
    ("own-8", "8 tasks on locks of their own"),
    ("own-100", "100 tasks on locks of their own"),
];

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    for Language { run, name, on_one, .. } in LANGUAGES {
        let mix = |(mode, tasks)| Mix {
            run,
            mode,
            who: Cow::Owned(format!("{tasks} of a {name} program on one lock")),
            served: Served::InTurn,
            ours: PACKAGE,
            peers: on_one,
        };
        mixes::run(plan, report, &ON_ONE.map(mix), rounds(plan));
    }
}

/// Each task on its own.
pub(crate) fn with_own_locks(plan: &Plan, report: &mut Report) {
    for Language { run, name, alone, .. } in LANGUAGES {
        let mix = |(mode, tasks)| Mix {
            run,
            mode,
            who: Cow::Owned(format!("{tasks} in a {name} program")),
            served: Served::Alone,
            ours: PACKAGE,
            peers: alone,
        };
        mixes::run(plan, report, &ALONE.map(mix), rounds(plan));
    }
}

/// They are many, and a JVM takes its time.
fn rounds(plan: &Plan) -> usize {
    plan.pick(3, 1)
}
