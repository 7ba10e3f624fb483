//! What the output of a step says: its tests, as cargo prints them, and what could not be done.

use std::time::Duration;

/// A test that ran.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) passed: bool,
    /// None where the program of the tests doesn't say.
    pub(super) took: Option<Duration>,
}

/// A test that failed, by what it printed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Failure {
    /// This machine stood still, or its clock was set (tests/integration/support/pace.rs): the test has shown nothing.
    pub(super) disturbed: bool,
    /// Two owners, a wrong history, a crash or a panic of the module: nothing excuses that.
    pub(super) fault: bool,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Output {
    /// Whether it counts its tests as cargo does.
    pub(super) counted: bool,
    pub(super) good: usize,
    pub(super) bad: usize,
    pub(super) tests: Vec<Test>,
    pub(super) failures: Vec<(String, Failure)>,
    /// What could not do here what it is for, and why.
    pub(super) skipped: Vec<(String, String)>,
    pub(super) ignored: Vec<String>,
}

const FAULTS: [&str; 5] =
    ["two owners", "faults, such as", "the server ended", "crashed by signal", "internal error in "];
const CAUSES: [&str; 3] = ["Network", "Mounts", "Variant"];

impl Output {
    pub(super) fn read(said: &str) -> Self {
        let mut output = Output::default();
        let mut within = false;
        for line in said.lines() {
            if let Some(counts) = line.strip_prefix("test result:") {
                output.counted = true;
                output.good += count(counts, "passed");
                output.bad += count(counts, "failed");
            } else if let Some(test) = test_of(line) {
                output.tests.push(test);
            } else if let Some((name, _)) =
                line.strip_prefix("test ").and_then(|line| line.split_once(" ... ignored"))
            {
                output.ignored.push(name.to_owned());
            }
            if let Some((cause, reason)) =
                line.strip_prefix("skipped: ").and_then(|line| line.split_once(": "))
                && CAUSES.contains(&cause)
            {
                output.skipped.push((cause.to_owned(), reason.to_owned()));
            }
            let heading = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
            if let Some(name) = heading {
                output.failures.push((name.to_owned(), Failure::default()));
                within = true;
            } else if line == "failures:" {
                within = false;
            } else if within && let Some((_, failure)) = output.failures.last_mut() {
                failure.disturbed |= line.starts_with("this machine ");
                failure.fault |= FAULTS.iter().any(|fault| line.contains(fault));
            }
        }
        output
    }

    /// What that test printed says of its failure; a fault if it printed nothing, as one that was ended.
    pub(super) fn failure(&self, name: &str) -> Failure {
        let found = self.failures.iter().find(|(failed, _)| failed == name);
        found.map_or(Failure { disturbed: false, fault: true }, |(_, failure)| *failure)
    }

    pub(super) fn failed(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().filter(|test| !test.passed).map(|test| test.name.as_str())
    }
}

/// The number before that word.
fn count(counts: &str, what: &str) -> usize {
    let words: Vec<&str> = counts.split_whitespace().collect();
    let pair = words.windows(2).find(|pair| pair.get(1).is_some_and(|word| word.starts_with(what)));
    pair.and_then(|pair| pair.first()?.parse().ok()).unwrap_or(0)
}

/// `test NAME ... ok <1.234s>`. What a test writes past the capture may stand before it.
fn test_of(line: &str) -> Option<Test> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let (word, took) = result.split_once(" <").unwrap_or((result, ""));
    let passed = match word {
        "ok" => true,
        "FAILED" => false,
        _ => return None,
    };
    let took = took.strip_suffix("s>").and_then(|took| took.parse().ok());
    Some(Test { name: name.to_owned(), passed, took: took.map(Duration::from_secs_f64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "
running 5 tests
test wait::order::fair ... ok <1.250s>
test wait::slow has been running for over 60 seconds
test wait::late ... FAILED <3.000s>
test grace::two ... FAILED <2.000s>
test golden::make ... ignored, by hand
test lock::panics - should panic ... ok

skipped: Network: failover::lossy: no nft
skipped: the rest

failures:

---- wait::late stdout ----
thread panicked at wait.rs:1:1
this machine stood still for 900ms

---- grace::two stdout ----
two owners of one lock
this machine stood still for 900ms


failures:
    grace::two
    wait::late

test result: FAILED. 2 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 3.20s

test result: ok. 7 passed; 0 failed; 0 ignored
";

    #[test]
    fn tests_are_counted_and_named() {
        let output = Output::read(SAID);
        assert_eq!((output.counted, output.good, output.bad), (true, 9, 2));
        assert_eq!(output.failed().collect::<Vec<_>>(), ["wait::late", "grace::two"]);
        assert_eq!(output.ignored, ["golden::make"]);
        let first = Test {
            name: "wait::order::fair".to_owned(),
            passed: true,
            took: Some(Duration::from_millis(1250)),
        };
        assert_eq!(output.tests.first(), Some(&first));
        assert_eq!(output.tests.last().map(|test| test.name.as_str()), Some("lock::panics"));
        assert_eq!(output.skipped, [("Network".to_owned(), "failover::lossy: no nft".to_owned())]);
    }

    #[test]
    fn a_fault_is_told_from_a_machine_that_stood_still() {
        let output = Output::read(SAID);
        assert_eq!(output.failure("wait::late"), Failure { disturbed: true, fault: false });
        assert_eq!(output.failure("grace::two"), Failure { disturbed: true, fault: true });
        assert!(output.failure("never::told").fault);
    }

    #[test]
    fn other_programs_are_not_counted() {
        assert!(!Output::read("ok 3 tests\n").counted);
    }
}
