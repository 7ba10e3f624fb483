//! Counts what passed, and closes with the table: steps, shaky tests, what was slowest.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

use super::output::{Output, Test};

/// More tests than this that fail and pass again are a failure.
const MOST_SHAKY: usize = 2;
/// How many of the slowest are told.
const SLOWEST: usize = 8;

#[derive(Default)]
pub(super) struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Those that cargo counts: a run without any is none.
    tests: usize,
    rows: Vec<Row>,
    failures: String,
    slow_tests: Vec<(String, Test)>,
    shaky: Vec<String>,
    disturbed: Vec<String>,
    /// Beyond tests/skips.conf nothing is skipped.
    strict: bool,
    may_skip: BTreeSet<String>,
}

struct Row {
    name: String,
    result: String,
    took: Duration,
}

/// What became of the tests of a step that failed, once they were repeated.
#[derive(Default)]
pub(super) struct Repeated {
    pub(super) shaky: Vec<String>,
    pub(super) disturbed: Vec<String>,
}

impl Tally {
    /// `strict`: what is skipped is a failure, beyond those names.
    pub(super) fn new(strict: bool, may_skip: BTreeSet<String>) -> Self {
        Self { strict, may_skip, ..Self::default() }
    }

    pub(super) fn skip(&mut self, name: &str, reason: &str) {
        let refused = self.strict && !self.may_skip.contains(name);
        let result = if refused { "FAILED" } else { "skipped" };
        *(if refused { &mut self.failed } else { &mut self.skipped }) += 1;
        println!("{result}: {name}: {reason}");
        self.row(name, format!("{result}: {reason}"), Duration::ZERO);
    }

    fn row(&mut self, name: &str, result: String, took: Duration) {
        self.rows.push(Row { name: name.to_owned(), result, took });
    }

    /// A step has ended. It counts each of its tests, or 1 if it doesn't count them as cargo does; a build is none.
    pub(super) fn ended(
        &mut self,
        name: &str,
        status: i32,
        took: Duration,
        output: &Output,
        repeated: Repeated,
    ) {
        let excused = repeated.shaky.len() + repeated.disturbed.len();
        let (mut good, mut bad) = (output.good, output.bad);
        if !output.counted {
            good = usize::from(!name.starts_with("build"));
        }
        // One that was ended has not counted its tests.
        if status != 0 && bad == 0 {
            (good, bad) = (0, 1);
        }
        self.tests += good + bad;
        let real = bad.saturating_sub(excused);
        self.passed += good + (bad - real);
        self.failed += real;
        for (cause, reason) in &output.skipped {
            self.skip(cause, &format!("{reason} ({name})"));
        }
        for ignored in output
            .ignored
            .iter()
            .filter(|ignored| !self.may_skip.contains(*ignored))
            .cloned()
            .collect::<Vec<_>>()
        {
            self.skip(&ignored, &format!("ignored ({name})"));
        }
        let mut result = match (status, real) {
            (0, _) => "ok".to_owned(),
            (_, 0) => "ok when repeated".to_owned(),
            _ => format!("FAILED ({status})"),
        };
        let _ = write!(result, ": {} passed, {real} failed", good + (bad - real));
        self.row(name, result, took);
        self.slow_tests.extend(output.tests.iter().map(|test| (name.to_owned(), test.clone())));
        self.shaky.extend(repeated.shaky.iter().map(|test| format!("{name}: {test}")));
        self.disturbed.extend(repeated.disturbed.iter().map(|test| format!("{name}: {test}")));
    }

    /// Shown once more at the end: thousands of lines come after it.
    pub(super) fn keep_failure(&mut self, name: &str, told: &str) {
        let _ = write!(self.failures, "\n=== {name} failed:\n{told}");
    }

    /// The table, and whether all is well.
    pub(super) fn close_with(mut self, said: &str, took: Duration) -> bool {
        let colour = stdout().is_terminal();
        if self.too_shaky() {
            self.failed += self.shaky.len();
            self.passed -= self.shaky.len().min(self.passed);
        }
        println!("\n{}", self.table(colour));
        print!("{}", self.failures);
        if self.tests == 0 {
            eprintln!("error: no test ran");
        }
        if !said.is_empty() {
            println!("{said}");
        }
        println!("in {} s", took.as_secs());
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped);
        self.failed == 0 && self.tests > 0
    }

    fn too_shaky(&self) -> bool {
        self.shaky.len() > MOST_SHAKY
    }

    fn table(&self, colour: bool) -> String {
        let mut table = String::new();
        for row in &self.rows {
            let _ = writeln!(table, "{:<36} {:<48} {:>4} s", row.name, row.result, row.took.as_secs());
        }
        let mut slow: Vec<&Row> = self.rows.iter().collect();
        slow.sort_by_key(|row| std::cmp::Reverse(row.took));
        let names: Vec<String> =
            slow.iter().take(SLOWEST).map(|row| format!("{} {} s", row.name, row.took.as_secs())).collect();
        let _ = writeln!(table, "\nslowest steps: {}", names.join("; "));
        let mut slow: Vec<_> =
            self.slow_tests.iter().filter_map(|(of, test)| Some((test.took?, of, &test.name))).collect();
        slow.sort_by_key(|(took, ..)| std::cmp::Reverse(*took));
        let names = slow
            .iter()
            .take(SLOWEST)
            .map(|(took, of, name)| format!("  {:>5.1} s  {name} ({of})\n", took.as_secs_f64()));
        let names: String = names.collect();
        if !names.is_empty() {
            let _ = write!(table, "slowest tests:\n{names}");
        }
        let (yellow, red, end) = if colour { ("\x1b[33m", "\x1b[31m", "\x1b[0m") } else { ("", "", "") };
        for test in &self.disturbed {
            let _ = writeln!(
                table,
                "{yellow}disturbed: {test}: failed while this machine stood still, and passed when repeated{end}"
            );
        }
        let how = if self.too_shaky() { red } else { yellow };
        for test in &self.shaky {
            let _ = writeln!(table, "{how}shaky: {test}: failed, and passed when repeated{end}");
        }
        if self.too_shaky() {
            let _ = writeln!(
                table,
                "{red}error: {} shaky tests; more than {MOST_SHAKY} are a failure{end}",
                self.shaky.len()
            );
        }
        table
    }

    /// All tests in the form that workflows read.
    pub(super) fn junit(&self) -> String {
        let mut xml =
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"redislock\">\n"
                .to_owned();
        for (of, test) in &self.slow_tests {
            let took = test.took.unwrap_or_default().as_secs_f64();
            let excused = format!("{of}: {}", test.name);
            let failed = !test.passed && !self.shaky.contains(&excused) && !self.disturbed.contains(&excused);
            let failure = if failed { "<failure message=\"failed\"/>" } else { "" };
            let _ = writeln!(
                xml,
                "<testcase classname=\"{}\" name=\"{}\" time=\"{took:.3}\">{failure}</testcase>",
                escaped(of),
                escaped(&test.name)
            );
        }
        xml.push_str("</testsuite>\n</testsuites>\n");
        xml
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn output(good: usize, bad: usize) -> Output {
        Output { counted: true, good, bad, ..Output::default() }
    }

    fn shaky(count: usize) -> Repeated {
        Repeated { shaky: (0..count).map(|at| format!("test::{at}")).collect(), disturbed: Vec::new() }
    }

    fn counts(tally: &Tally) -> (usize, usize, usize) {
        (tally.passed, tally.failed, tally.skipped)
    }

    #[test]
    fn tests_are_summed_up() {
        let mut tally = Tally::default();
        tally.ended("build, debug", 0, SECOND, &Output::default(), Repeated::default());
        tally.ended("format", 0, SECOND, &Output::default(), Repeated::default());
        tally.ended("unit", 101, SECOND, &output(7, 2), Repeated::default());
        tally.ended("musl", 1, SECOND, &Output::default(), Repeated::default());
        assert_eq!(counts(&tally), (8, 3, 0));
        assert!(!tally.close_with("", SECOND));
    }

    #[test]
    fn two_shaky_tests_are_told_and_three_are_a_failure() {
        let mut tally = Tally::default();
        tally.ended("redis-7.0", 101, SECOND, &output(7, 2), shaky(2));
        assert_eq!(counts(&tally), (9, 0, 0));
        assert!(tally.table(true).contains("\x1b[33mshaky: redis-7.0: test::1"));
        assert!(tally.close_with("", SECOND));
        let mut tally = Tally::default();
        tally.ended("redis-7.0", 101, SECOND, &output(7, 2), shaky(2));
        tally.ended("valkey-9", 101, SECOND, &output(7, 1), shaky(1));
        assert!(tally.table(false).contains("3 shaky tests"));
        assert!(!tally.close_with("", SECOND));
    }

    #[test]
    fn a_shaky_test_excuses_no_other() {
        let mut tally = Tally::default();
        tally.ended("redis-7.0", 101, SECOND, &output(7, 2), shaky(1));
        assert_eq!(counts(&tally), (8, 1, 0));
        assert!(!tally.close_with("", SECOND));
    }

    #[test]
    fn what_may_not_be_skipped_fails_where_that_counts() {
        let mut tally = Tally::new(true, ["image".to_owned()].into());
        tally.skip("image", "no containers");
        tally.skip("fuzz", "no compiler");
        assert_eq!(counts(&tally), (0, 1, 1));
    }

    #[test]
    fn a_run_without_a_test_fails() {
        assert!(!Tally::default().close_with("", SECOND));
    }
}
