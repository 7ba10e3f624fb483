//! Which mutants are tried: drawn with a fixed seed from those that cargo-mutants knows, as many of each folder of src, or of the
//! folders of the rules together.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::Result;

/// Where something is in a file; both count from 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Span {
    pub(super) start: Place,
    pub(super) end: Place,
}

/// As cargo-mutants describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mutant {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) genre: String,
    pub(super) replacement: String,
    pub(super) span: Span,
}

impl Mutant {
    /// The folder of src, or src itself.
    pub(super) fn folder(&self) -> &str {
        let path = self.file.trim_start_matches("src/");
        path.split_once('/').map_or("src", |(folder, _)| folder)
    }
}

/// The folders whose code decides.
const RULES: [&str; 3] = ["lock", "serving", "waiting"];

/// Which mutants are tried, and which tests are to find them.
#[derive(Clone, Copy)]
pub(super) enum Scope {
    /// As many of each folder; all tests.
    All,
    /// Those of the folders of the rules, each as likely as the others; unit tests.
    Rules,
}

impl Scope {
    pub(super) fn count(self) -> usize {
        match self {
            Self::All => 40,
            Self::Rules => 100,
        }
    }

    /// The lot that the mutant is in, if any.
    fn lot(self, mutant: &Mutant) -> Option<&str> {
        match self {
            Self::All => Some(mutant.folder()),
            Self::Rules => RULES.contains(&mutant.folder()).then_some("rules"),
        }
    }
}

/// The mutants of each lot, in the order in which they are drawn.
pub(super) struct Lots {
    scope: Scope,
    lots: BTreeMap<String, Vec<Mutant>>,
}

impl Lots {
    /// All mutants but those that .cargo/mutants.toml leaves out.
    pub(super) fn new(root: &Path, scope: Scope, seed: u64) -> Result<Self> {
        let arguments = ["mutants", "--list", "--json", "--package", "redislock", "--file", "src/**"];
        let output = Command::new("cargo")
            .args(arguments)
            .current_dir(root)
            .output()
            .map_err(|error| format!("cargo mutants: {error}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "cargo mutants fails; is it there? cargo install --locked cargo-mutants\n{why}"
            ));
        }
        let mut all: Vec<Mutant> =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo mutants: {error}"))?;
        shuffle(&mut all, seed);
        // The last one of each is drawn first.
        let mut lots = BTreeMap::<String, Vec<Mutant>>::new();
        for mutant in all {
            if let Some(lot) = scope.lot(&mutant).map(str::to_owned) {
                lots.entry(lot).or_default().push(mutant);
            }
        }
        Ok(Self { scope, lots })
    }

    /// The lots of that many mutants.
    pub(super) fn take(&self, count: usize) -> Vec<String> {
        let mut lots: Vec<String> = self.lots.keys().cloned().cycle().take(count).collect();
        lots.sort();
        lots
    }

    /// The lot that the mutant was drawn from.
    pub(super) fn of(&self, mutant: &Mutant) -> String {
        self.scope.lot(mutant).unwrap_or_default().to_owned()
    }

    /// The next one of that lot.
    pub(super) fn draw(&mut self, lot: &str) -> Option<Mutant> {
        self.lots.get_mut(lot)?.pop()
    }
}

fn shuffle(all: &mut [Mutant], seed: u64) {
    let mut state = seed;
    for last in (1..all.len()).rev() {
        let other = next(&mut state) % (last as u64 + 1);
        all.swap(last, usize::try_from(other).unwrap_or(last));
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
