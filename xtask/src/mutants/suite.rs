//! Tests, each in a process of its own: so they can be told which mutant they have, and tell which ones they come by.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::{Deserialize, Serialize};

use super::{Result, told};

/// Bytes of address space, in kB: some mutants would take all of the memory.
const ROOM: u32 = 6_000_000;

/// The tests of one program.
pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) program: PathBuf,
    /// Where cargo would run it.
    pub(super) folder: PathBuf,
    pub(super) without: &'static [&'static str],
    pub(super) variables: Vec<(&'static str, PathBuf)>,
    /// How many run at a time.
    pub(super) threads: usize,
    /// For what they print.
    pub(super) logs: PathBuf,
}

/// How a test ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ran {
    pub(super) passed: bool,
    pub(super) seconds: f64,
    /// The mutants that it came by, whether they were on or not.
    pub(super) seen: BTreeSet<usize>,
}

/// How tests ended, by name.
pub(super) type Results = BTreeMap<String, Ran>;

impl Suite {
    pub(super) fn tests(&self) -> Result<Vec<String>> {
        let mut command = Command::new(&self.program);
        command.args(["--list", "--format", "terse"]).current_dir(&self.folder);
        let output = command.output().map_err(told(&self.program))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let all = text.lines().filter_map(|line| line.strip_suffix(": test"));
        let wanted = all.filter(|test| !self.without.iter().any(|part| test.contains(part)));
        Ok(wanted.map(str::to_owned).collect())
    }

    /// Runs these tests, in that order, until that many have failed.
    pub(super) fn run(
        &self,
        tests: &[String],
        mutant: Option<usize>,
        enough: usize,
        limit: impl Fn(&str) -> f64 + Sync,
    ) -> Results {
        let (rest, results) = (Mutex::new(tests.iter()), Mutex::new(Results::new()));
        let failures = || locked(&results).values().filter(|ran| !ran.passed).count();
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    while failures() < enough {
                        let Some(test) = locked(&rest).next() else { break };
                        let ran = self.one(test, mutant, limit(test));
                        locked(&results).insert(test.clone(), ran);
                    }
                });
            }
        });
        results.into_inner().unwrap_or_default()
    }

    /// Runs one test; after so many seconds it has failed.
    pub(super) fn one(&self, test: &str, mutant: Option<usize>, limit: f64) -> Ran {
        let name = format!(
            "{}.{}",
            mutant.map_or("none".into(), |number| number.to_string()),
            test.replace("::", ".")
        );
        let (log, seen) = (self.logs.join(format!("{name}.log")), self.logs.join(format!("{name}.seen")));
        let began = Instant::now();
        let passed = self.passes(test, mutant, limit, &log, &seen).unwrap_or_else(|error| {
            eprintln!("{test}: {error}");
            false
        });
        let seconds = began.elapsed().as_secs_f64();
        let told = fs::read_to_string(&seen).unwrap_or_default();
        _ = fs::remove_file(&seen);
        if passed {
            _ = fs::remove_file(&log);
        }
        Ran { passed, seconds, seen: told.lines().filter_map(|line| line.parse().ok()).collect() }
    }

    fn passes(&self, test: &str, mutant: Option<usize>, limit: f64, log: &Path, seen: &Path) -> Result<bool> {
        let output = File::create(log).map_err(told(log))?;
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -v {ROOM}; exec \"$@\""), "sh"])
            .arg(&self.program)
            .args(["--exact", test, "--nocapture"])
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            // With one, the test would run in the thread `main`.
            .env("RUST_TEST_THREADS", "2")
            .envs([("REDISLOCK_SEED", "1"), ("PROPTEST_RNG_SEED", "1")])
            .envs(self.variables.iter().map(|(name, path)| (name, path)))
            .env("PLANTED_SEEN", seen)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(told(log))?)
            .stderr(output)
            // What it leaves behind is ended with it.
            .process_group(0);
        if let Some(number) = mutant {
            command.env("PLANTED_MUTANT", number.to_string());
        }
        let mut child = command.spawn().map_err(|error| format!("sh: {error}"))?;
        let group = Pid::from_child(&child);
        let end = Instant::now() + Duration::from_secs_f64(limit);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = loop {
            let ended = waitid(WaitId::Pid(group), options).map_err(|error| error.to_string())?.is_some();
            if ended || Instant::now() > end {
                break ended;
            }
            thread::sleep(Duration::from_millis(10));
        };
        // Not waited for yet: until then, no other process can have that number.
        _ = kill_process_group(group, Signal::KILL);
        let status = child.wait().map_err(|error| error.to_string())?;
        Ok(ended && status.success())
    }
}

/// Nobody panics with the lock.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
