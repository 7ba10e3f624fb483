//! Runs the steps: the builds they share, what each is as a command, and the tests that fail a second time.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::asked::{Asked, Tier};
use super::beside;
use super::command::{again, told, words};
use super::lints;
use super::output::Output;
use super::plain;
use super::process::{Limits, Ran, run};
use super::servers;
use super::slices::Slice;
use super::steps::{FIRST, Kind, Step};
use super::tally::{Repeated, Tally};
use super::tree;

/// A test that has not ended by then never will.
const TEST_LIMIT: Duration = Duration::from_secs(300);
/// The same for the small worlds, which compute.
const UNIT_LIMIT: Duration = Duration::from_secs(600);
/// On the CI nobody watches: there a step that hangs is ended.
const STEP_LIMIT: Duration = Duration::from_secs(900);
const FRESH_LIMIT: Duration = Duration::from_secs(2700);
/// With more failures than this none is repeated: that is no test that is shaky.
const MOST_REPEATED: usize = 8;

pub(super) struct Runner {
    asked: Asked,
    tally: Tally,
    target: String,
    /// Nobody watches.
    is_ci: bool,
    /// The module that servers load; None if it doesn't build, or isn't built yet.
    module: Option<String>,
    found: BTreeMap<String, String>,
}

impl Runner {
    pub(super) fn new(asked: Asked) -> Result<Self, String> {
        let target = env::var("CARGO_TARGET_DIR").map_err(|_| "scripts/test starts this".to_owned())?;
        let is_ci = env::var("CI").is_ok_and(|ci| !ci.is_empty());
        let strict = env::var("CI").is_ok_and(|ci| ci == "true");
        let tally = Tally::new(strict, tree::skips());
        Ok(Self { asked, tally, target, is_ci, module: None, found: BTreeMap::new() })
    }

    pub(super) fn close(self, said: &str, took: Duration) -> bool {
        // For the workflow; nothing depends on it.
        drop(fs::write(format!("{}/junit.xml", self.target), self.tally.junit()));
        let well = self.tally.close_with(said, took);
        drop(std::io::Write::flush(&mut std::io::stdout()));
        well
    }

    fn limits(&self, test: Duration) -> Limits {
        Limits { whole: self.is_ci.then_some(STEP_LIMIT), test }
    }

    pub(super) fn run(&mut self, steps: &[Step]) {
        let mut beside = Vec::new();
        let mut prepared = false;
        for step in steps {
            let needs_module = matches!(
                step.kind,
                Kind::Integration { .. } | Kind::Evidence | Kind::Client { .. } | Kind::Conformance { .. }
            );
            if needs_module && !prepared {
                prepared = true;
                self.build();
                self.install_servers(steps);
            }
            let is_late = matches!(step.kind, Kind::Script(_) | Kind::Fresh { .. });
            if is_late {
                self.together(std::mem::take(&mut beside));
            }
            match &step.kind {
                Kind::Integration { server, slice } => self.integration(server, *slice, &step.name),
                Kind::Evidence | Kind::Client { .. } | Kind::Conformance { .. } | Kind::Image => {
                    if let Some(command) = self.client(&step.kind) {
                        beside.push((step.name.clone(), command));
                    }
                }
                Kind::Unit { slice, seed } => self.unit(*slice, *seed, &step.name),
                _ => self.plain(step),
            }
        }
        self.together(beside);
    }

    /// The steps that are one command.
    fn plain(&mut self, step: &Step) {
        match plain::command(&step.kind, &self.target) {
            Some(command) => drop(self.step(&step.name, command)),
            None => self.tally.skip(&step.name, "rustup can't install that Rust"),
        }
    }

    /// Runs a step, and shows all it says.
    fn step(&mut self, name: &str, command: Command) -> bool {
        let ran = self.shown(name, command, TEST_LIMIT);
        self.ended(name, &ran, Repeated::default())
    }

    fn shown(&self, name: &str, mut command: Command, limit: Duration) -> Ran {
        println!("\n=== {name}: {}", told(&command));
        let mut limits = self.limits(limit);
        if name.starts_with("fresh") {
            // It builds everything, and has steps of its own.
            limits.whole = limits.whole.map(|_| FRESH_LIMIT);
        }
        run(&mut command, true, limits)
    }

    /// Counts a step that has ended; whether it went well.
    fn ended(&mut self, name: &str, ran: &Ran, repeated: Repeated) -> bool {
        let mut status = ran.status;
        if status == 77 {
            let reason = ran.said.trim_end().lines().last().unwrap_or_default();
            self.tally.skip(name, reason);
            return false;
        }
        let output = Output::read(&ran.said);
        if output.counted && self.asked.is_whole() && output.good + output.bad == 0 {
            println!("error: no test ran");
            status = 1;
        }
        if status != 0 {
            self.tally.keep_failure(name, &brief(&self.target, &ran.said));
        }
        self.tally.ended(name, status, ran.took, &output, repeated);
        status == 0
    }

    /// Runs tests of cargo's, and those that fail once more, each alone.
    fn tests(&mut self, name: &str, mut command: Command, arguments: &[String], limit: Duration) {
        let base = words(&command);
        command.args(arguments);
        let ran = self.shown(name, command, limit);
        let output = Output::read(&ran.said);
        let mut repeated = Repeated::default();
        let failed: Vec<String> = output.failed().map(str::to_owned).collect();
        if output.bad > 0 && output.bad == failed.len() && failed.len() <= MOST_REPEATED {
            for test in failed {
                let failure = output.failure(&test);
                if failure.fault {
                    continue;
                }
                let mut again = again(&base);
                again.args(["--exact", &test]).args(TIMED);
                let ran = self.shown(&format!("{name}, once more"), again, limit);
                let output = Output::read(&ran.said);
                if ran.status == 0 && output.good == 1 {
                    (if failure.disturbed { &mut repeated.disturbed } else { &mut repeated.shaky })
                        .push(test);
                }
            }
        }
        self.ended(name, &ran, repeated);
    }

    fn unit(&mut self, slice: Slice, seed: u32, name: &str) {
        let mut command = Command::new("cargo");
        command.args(["test", "--lib", "--locked"]).args(runner_of_tests());
        command.env("PROPTEST_RNG_SEED", seed_or(seed));
        // Optimising takes less time than it saves in the wide worlds, but more than a few tests do.
        if slice != Slice::Short && self.asked.is_whole() {
            command.args(["--config", "profile.dev.package.redislock.opt-level=3"]);
        }
        command.arg("--");
        let mut arguments = owned(&slice.arguments());
        if !self.asked.is_whole() && self.asked.only.as_deref() != Some("clients") {
            arguments = vec![self.asked.filter.clone()];
        }
        if seed > 1 {
            // All but the small worlds.
            arguments.extend(owned(&["--skip", "worlds::", "--skip", "tests::detect::"]));
        }
        arguments.extend(owned(&TIMED));
        self.tests(name, command, &arguments, UNIT_LIMIT);
    }

    /// The debug build has assertions, and LOCK.FAULT; the other one is what a release has.
    fn build(&mut self) {
        let mut debug = Command::new("cargo");
        debug.args(["build", "--locked", "--lib", "--example", "meddler"]);
        let mut well = self.step("build, debug", debug);
        if self.asked.released() {
            let mut command = Command::new("cargo");
            command.args(["build", "--locked", "--package", "redislock-cli"]);
            well &= self.step("build, command", command);
        }
        let mut module = format!("{}/debug/libredislock.so", self.target);
        if let Some(other) = env::var_os("REDISLOCK_SO").filter(|other| !other.is_empty()) {
            module =
                fs::canonicalize(other).map_or(String::new(), |path: PathBuf| path.display().to_string());
            well &= !module.is_empty();
        } else if self.asked.released() {
            well &= self.step("build", lints::bash("set -euo pipefail; . scripts/lib.sh; build_module"));
            module =
                format!("{}/{}-unknown-linux-gnu/release/libredislock.so", self.target, env::consts::ARCH);
        }
        if well {
            self.module = Some(module);
        } else {
            self.tally.skip("integration", "the module does not build");
        }
    }

    /// The servers that the steps are on.
    fn install_servers(&mut self, steps: &[Step]) {
        if self.module.is_none() {
            return;
        }
        let mut names: Vec<&str> = Vec::new();
        for step in steps {
            let name = match &step.kind {
                Kind::Integration { server, .. }
                | Kind::Client { server, .. }
                | Kind::Conformance { server, .. } => server,
                Kind::Evidence => FIRST,
                _ => continue,
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for name in names {
            match servers::find(name) {
                Ok(Some(server)) => match server.place {
                    Ok(path) => drop(self.found.insert(server.name, path)),
                    Err(reason) => self.tally.skip(name, &reason),
                },
                Ok(None) => self.tally.skip(name, "no such server"),
                Err(error) => self.tally.skip(name, &error),
            }
        }
        if self.found.is_empty() {
            self.step("a server to test on", Command::new("false"));
        }
    }

    /// The command, if it was built before the tests; empty if whoever needs it builds it.
    fn program(&self) -> String {
        if self.asked.released() { format!("{}/debug/redislock", self.target) } else { String::new() }
    }

    fn integration(&mut self, server: &str, slice: Slice, name: &str) {
        let (Some(module), Some(path)) = (self.module.clone(), self.found.get(server).cloned()) else {
            return;
        };
        let known =
            tree::servers().into_iter().find(|listed| listed.name == server).map(|listed| listed.version);
        let version = servers::version(&path).unwrap_or_else(|| "?".to_owned());
        let version = match known {
            Some(known) if known == version => version,
            Some(known) => format!("{version} for {known}"),
            None => format!("{version} for no version"),
        };
        let name = name.replacen(server, &format!("{server} ({version})"), 1);
        let debug = format!("{}/debug", self.target);
        let mut command = Command::new("cargo");
        command.args(["test", "--locked", "--test", "integration"]).args(runner_of_tests());
        command
            .env("REDISLOCK_SO", &module)
            .env("REDISLOCK_FAULTS_SO", format!("{debug}/libredislock.so"))
            .env("REDISLOCK_MEDDLER_SO", format!("{debug}/examples/libmeddler.so"))
            .env("REDISLOCK_PROGRAM", self.program())
            .env("REDISLOCK_SERVER", path)
            .env("REDISLOCK_PAIRS", if self.asked.tier == Tier::All { "all" } else { "some" })
            // Most of these tests wait for a server most of the time.
            .env("RUST_TEST_THREADS", (8 * processors()).to_string())
            .arg("--");
        let mut arguments =
            if self.asked.is_whole() { owned(&slice.arguments()) } else { vec![self.asked.filter.clone()] };
        // It asks for a module without LOCK.FAULT.
        if module == format!("{debug}/libredislock.so") {
            arguments.extend(owned(&["--skip", "faults::the_released_module"]));
        }
        arguments.extend(owned(&TIMED));
        self.tests(&name, command, &arguments, TEST_LIMIT);
    }

    fn together(&mut self, steps: Vec<(String, Command)>) {
        for (name, command, ran) in beside::together(steps, self.limits(TEST_LIMIT)) {
            println!("\n=== {name}: {}\n{}", told(&command), ran.said);
            self.ended(&name, &ran, Repeated::default());
        }
    }

    /// What tests clients, as a command; None without a server or a module.
    fn client(&self, kind: &Kind) -> Option<Command> {
        let (program, server, form) = match kind {
            Kind::Image => {
                let mut command = Command::new("scripts/package");
                command.args(["check", "image"]);
                return Some(command);
            }
            Kind::Evidence => ("tests/evidence/run".to_owned(), FIRST, ""),
            Kind::Client { name, server, whole } => {
                (format!("tests/clients/{name}/run"), server.as_str(), if *whole { "all" } else { "quick" })
            }
            Kind::Conformance { server, whole, .. } => (
                "tests/clients/conformance/run".to_owned(),
                server.as_str(),
                if *whole { "all" } else { "quick" },
            ),
            _ => return None,
        };
        let mut command = Command::new(program);
        if let Kind::Conformance { package, .. } = kind {
            command.arg(package);
        }
        command.env("FORM", form).env("REDISLOCK_SO", self.module.as_ref()?);
        command.env("REDISLOCK_SERVER", self.found.get(server)?).env("REDISLOCK_PROGRAM", self.program());
        Some(command)
    }
}

/// What a failed step said, in brief.
fn brief(target: &str, said: &str) -> String {
    let log = format!("{target}/failed.log");
    drop(fs::write(&log, said));
    let told = tree::says("scripts/failures", &[&log]).unwrap_or_default();
    let last: Vec<&str> = said.lines().rev().take(24).collect();
    let last = last.into_iter().rev();
    let lines = told.lines().chain(["..."]).chain(last);
    lines.map(|line| line.chars().take(200).collect::<String>() + "\n").collect()
}

/// The program of the tests tells how long each took. Stable Rust can, too, if it is told so; cargo must not know, or it would build all
/// anew.
const TIMED: [&str; 3] = ["-Z", "unstable-options", "--report-time"];

fn runner_of_tests() -> [String; 2] {
    let triple = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    ["--config".to_owned(), format!("target.{triple}.runner=['env','RUSTC_BOOTSTRAP=1']")]
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The caller's seed for what is random in the unit tests, or that one.
fn seed_or(unless: u32) -> String {
    env::var("PROPTEST_RNG_SEED").ok().filter(|seed| !seed.is_empty()).unwrap_or_else(|| unless.to_string())
}
