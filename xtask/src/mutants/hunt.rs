//! Tries the mutants, one after the other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;

use super::draw::{Lots, Mutant, Scope};
use super::record::{self, Finder, Found};
use super::scratch::Scratch;
use super::suite::{Results, Suite};
use super::{Result, SEED, root, told};

/// After so many failures, one knows.
const ENOUGH: usize = 5;
/// Seconds that a test may take of which nothing is known.
const PATIENCE: f64 = 900.0;
/// The server whose tests are the most.
const SERVER: &str = "redis-7.0";
/// The wide worlds take minutes, and the layout is that of a source without mutants.
const WITHOUT_LIB: [&str; 3] = ["worlds::promotion::", "worlds::wide::", "layout::"];
/// It asks for the module as it is released.
const WITHOUT_INTEGRATION: [&str; 1] = ["faults::the_released_module"];

/// Whether nothing escapes.
pub(super) fn main(result: &Path, scope: Scope, earlier: Option<&Path>) -> Result<bool> {
    let root = root()?;
    let folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from).join("mutants");
    let before = match earlier {
        Some(path) => Some(record::read(path)?.ok_or(format!("{} is not there", path.display()))?),
        None => None,
    };
    let mut scratch = Scratch::new(&root, &folder)?;
    let mut all = match (record::read(result)?, &before) {
        (Some(begun), _) => begun,
        (None, Some(before)) => before.iter().map(|found| Found::new(found.mutant.clone())).collect(),
        (None, None) => {
            let drawn = scratch.draw(&root, &mut Lots::new(&root, scope, SEED)?, scope.count())?;
            drawn.into_iter().map(Found::new).collect()
        }
    };
    let mutants: Vec<Mutant> = all.iter().map(|found| found.mutant.clone()).collect();
    scratch.take(&root, &mutants)?;
    record::write(result, &all)?;

    let logs = folder.join("logs");
    fs::create_dir_all(&logs).map_err(told(&logs))?;
    let hunt = Hunt { result, before: before.as_deref() };
    // What tests on servers found, is theirs first the next time.
    let of_lib: Vec<bool> = match &before {
        Some(before) => before.iter().map(|found| found.found == Some(Finder::Lib)).collect(),
        None => all.iter().map(|found| !found.tried_by_lib).collect(),
    };
    hunt.with(|| lib_suite(&scratch, &logs), Finder::Lib, &of_lib, &mut all)?;
    let rest = vec![true; all.len()];
    if let Scope::All = scope {
        hunt.with(|| integration_suite(&root, &scratch, &logs), Finder::Integration, &rest, &mut all)?;
    }
    if before.is_some() {
        hunt.with(|| lib_suite(&scratch, &logs), Finder::Lib, &rest, &mut all)?;
    }
    for found in all.iter_mut().filter(|found| found.found.is_none()) {
        found.found = Some(Finder::Nobody);
    }
    record::write(result, &all)?;
    Ok(record::tell(&all, before.as_deref()))
}

fn processors() -> usize {
    available_parallelism().map_or(2, Into::into)
}

fn lib_suite(scratch: &Scratch, logs: &Path) -> Result<Suite> {
    let program = scratch.build(&["test", "--lib", "--no-run"])?.ok_or("no program of the unit tests")?;
    Ok(Suite {
        name: "lib",
        program,
        folder: scratch.tree.clone(),
        without: &WITHOUT_LIB,
        variables: Vec::new(),
        threads: processors(),
        logs: logs.to_owned(),
    })
}

fn integration_suite(root: &Path, scratch: &Scratch, logs: &Path) -> Result<Suite> {
    let output = Command::new(root.join("scripts/servers")).arg(SERVER).output().map_err(told(root))?;
    let line = String::from_utf8_lossy(&output.stdout);
    let server = line.trim().split_once(' ').map(|(_, path)| PathBuf::from(path));
    let server =
        server.filter(|server| server.is_file()).ok_or(format!("scripts/servers has no {SERVER}: {line}"))?;
    scratch.build(&["build", "--lib", "--example", "meddler"])?;
    let arguments = ["test", "--package", "redislock-integration", "--test", "integration", "--no-run"];
    let program = scratch.build(&arguments)?.ok_or("no program of the integration tests")?;
    Ok(Suite {
        name: "integration",
        program,
        folder: scratch.tree.join("tests/integration"),
        without: &WITHOUT_INTEGRATION,
        variables: vec![
            ("REDISLOCK_SERVER", server),
            ("REDISLOCK_SO", scratch.module()),
            ("REDISLOCK_FAULTS_SO", scratch.module()),
            ("REDISLOCK_MEDDLER_SO", scratch.meddler()),
        ],
        // Most of these tests wait for a server most of the time.
        threads: 8 * processors(),
        logs: logs.to_owned(),
    })
}

struct Hunt<'a> {
    result: &'a Path,
    before: Option<&'a [Found]>,
}

impl Hunt<'_> {
    /// Tries each of these mutants that is still to be found.
    fn with(
        &self,
        suite: impl Fn() -> Result<Suite>,
        finder: Finder,
        which: &[bool],
        all: &mut [Found],
    ) -> Result<()> {
        // What nobody found before can't escape now.
        for (found, before) in all.iter_mut().zip(self.before.into_iter().flatten()) {
            found.found = found.found.or(before.found.filter(|found| *found == Finder::Nobody));
        }
        let open: Vec<usize> = all
            .iter()
            .zip(which)
            .enumerate()
            .filter(|(_, (found, which))| **which && found.found.is_none())
            .map(|(number, _)| number)
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let suite = &suite()?;
        let tests = suite.tests()?;
        println!("{}: {} tests", suite.name, tests.len());
        let mut plain = None;
        for number in open {
            let Some(found) = all.get_mut(number) else { continue };
            let before = self.before.and_then(|before| before.get(number));
            let left = before.map(|before| self.left(before, &tests)).unwrap_or_default();
            confirm(suite, number, left, ENOUGH, found);
            if found.by.is_empty() {
                if plain.is_none() {
                    plain = Some(self.plain(suite, &tests)?);
                }
                attempt(suite, number, plain.as_ref().into_iter().flatten(), finder, found);
            }
            if !found.by.is_empty() {
                found.found = Some(finder);
            }
            found.tried_by_lib |= finder == Finder::Lib;
            println!("{number} {} {:?} {:?}", found.mutant.name, found.found, found.by);
            record::write(self.result, &all)?;
        }
        Ok(())
    }

    /// The tests that found it before, and are there.
    fn left(&self, before: &Found, tests: &[String]) -> Vec<String> {
        before.by.iter().filter(|test| tests.contains(test)).cloned().collect()
    }

    /// All tests without a mutant: how long they take, and which mutants they come by.
    fn plain(&self, suite: &Suite, tests: &[String]) -> Result<Results> {
        let path = self.result.with_extension(format!("{}.json", suite.name));
        let known = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Results>(&bytes).ok());
        let same = |results: &Results| {
            results.keys().collect::<BTreeSet<_>>() == tests.iter().collect::<BTreeSet<_>>()
        };
        if let Some(known) = known.filter(same) {
            return Ok(known);
        }
        let plain = suite.run(tests, None, usize::MAX, |_| PATIENCE);
        for (test, _) in plain.iter().filter(|(_, ran)| !ran.passed) {
            println!("fails without a mutant: {test}");
        }
        record::write(&path, &plain)?;
        Ok(plain)
    }
}

/// Runs all that come by the mutant, those that take least first.
fn attempt<'a>(
    suite: &Suite,
    number: usize,
    plain: impl Iterator<Item = (&'a String, &'a super::suite::Ran)>,
    finder: Finder,
    found: &mut Found,
) {
    let mut reaching: Vec<(&String, f64)> = plain
        .filter(|(_, ran)| ran.passed && ran.seen.contains(&number))
        .map(|(test, ran)| (test, ran.seconds))
        .collect();
    reaching.sort_by(|(_, left), (_, right)| left.total_cmp(right));
    match finder {
        Finder::Lib => found.reached_by_lib = reaching.len(),
        _ => found.reached_by_integration = reaching.len(),
    }
    let seconds: std::collections::BTreeMap<&str, f64> =
        reaching.iter().map(|(test, seconds)| (test.as_str(), *seconds)).collect();
    let tests: Vec<String> = reaching.iter().map(|(test, _)| (*test).clone()).collect();
    let limit = |test: &str| 60.0 + 4.0 * seconds.get(test).copied().unwrap_or(PATIENCE);
    // A mutant that hangs a unit test hangs all.
    let enough = if finder == Finder::Lib { 2 } else { ENOUGH };
    let ran = suite.run(&tests, Some(number), enough, limit);
    let mut failed: Vec<(String, f64)> =
        ran.into_iter().filter(|(_, ran)| !ran.passed).map(|(test, ran)| (test, ran.seconds)).collect();
    failed.sort_by(|(_, left), (_, right)| left.total_cmp(right));
    let failed = failed.into_iter().map(|(test, _)| test).collect();
    confirm(suite, number, failed, enough, found);
}

/// Runs these by themselves: with the mutant they fail, and without it they pass.
fn confirm(suite: &Suite, number: usize, tests: Vec<String>, enough: usize, found: &mut Found) {
    for test in tests {
        if found.by.len() >= enough {
            break;
        }
        let plain = suite.one(&test, None, PATIENCE);
        let kills = plain.passed && !suite.one(&test, Some(number), 60.0 + 4.0 * plain.seconds).passed;
        if kills { found.by.push(test) } else { found.shaken.push(test) }
    }
}
