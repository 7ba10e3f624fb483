//! What a run is to measure, and how thoroughly.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, process};

/// The parts in the order in which they run.
pub(crate) const PARTS: [&str; 17] = [
    "instructions",
    "throughput",
    "handover",
    "clients",
    "tasks",
    "failures",
    "waiters",
    "lapse",
    "memory",
    "session",
    "notify",
    "stall",
    "hostile",
    "shared",
    "several",
    "sync",
    "durability",
];

/// What is done with the recorded counts of instructions, instead of measuring.
#[derive(Clone, Copy)]
pub(crate) enum Guard {
    Check,
    Record,
}

pub(crate) struct Plan {
    pub(crate) guard: Option<Guard>,
    pub(crate) quick: bool,
    /// Figures and pictures go to docs/bench and README.md too: those of the parts that ran.
    pub(crate) save: bool,
    /// Nothing is measured: the pages get the tables of the kept results.
    pub(crate) pages: bool,
    parts: Vec<String>,
    /// Where results go.
    pub(crate) folder: PathBuf,
    /// What stands on the pictures: whose figures they are, and of when.
    pub(crate) caption: String,
}

impl Plan {
    /// What the command line asks for.
    pub(crate) fn from_arguments() -> Self {
        let target = env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
        let mut plan = Self {
            guard: None,
            quick: false,
            save: false,
            pages: false,
            parts: Vec::new(),
            folder: target.join("bench"),
            caption: String::new(),
        };
        for argument in env::args().skip(1) {
            match argument.as_str() {
                "--quick" => plan.quick = true,
                "--check" => plan.guard = Some(Guard::Check),
                "--record" => plan.guard = Some(Guard::Record),
                "--save" => plan.save = true,
                "--pages" => plan.pages = true,
                // What `cargo bench` adds.
                "--bench" => (),
                part if PARTS.contains(&part) => plan.parts.push(argument),
                option if option.starts_with('-') => {
                    eprintln!("error: there is no option {option}");
                    process::exit(2);
                }
                other => {
                    eprintln!("error: {other} is no part of the benchmark; those are: {}", PARTS.join(", "));
                    process::exit(2);
                }
            }
        }
        plan
    }

    /// Nothing of an earlier run, of another server perhaps, is to stand beside the results.
    pub(crate) fn clear_folder(&self) {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).expect("the folder of the earlier results to be removed");
        }
        fs::create_dir_all(&self.folder).expect("a folder for the results");
    }

    pub(crate) fn includes(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|included| included == part)
    }

    /// How often, or how long: in full, or quickly.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// As `pick`, in ms.
    pub(crate) fn ms(&self, full: u64, quick: u64) -> Duration {
        Duration::from_millis(self.pick(full, quick))
    }
}

/// In which order so many contestants take their turns in a round: another one in each, since what ran right before can make a
/// turn faster or slower by a third. (By Fisher and Yates, with numbers by SplitMix64.)
pub(crate) fn order(count: usize, round: usize) -> Vec<usize> {
    let mut state = round as u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize
    };
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, next() % (last + 1));
    }
    order
}

/// Shows what is going on.
pub(crate) fn progress(what: &str) {
    eprintln!("{what}");
}
