//! What was measured: ratios with their bounds, and the figures behind them, for people and for machines.

use std::borrow::Cow;
use std::env;
use std::time::Duration;

use procfs::sys::kernel::Version;
use procfs::{CpuInfo, Current as _, LoadAverage};
use serde::{Deserialize, Serialize};

use crate::stats::Spread;

/// What happens to the users of a lock, in part `failures`. In the end of it, one process waits.
pub(crate) const EVENTS: [&str; 3] =
    ["the holder is killed", "the holder is stopped", "the first waiter is killed"];
/// No wait is looked at for longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(35);

/// All results of a part of a run.
#[derive(Default, Deserialize, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    /// What is to be known before the figures are believed.
    notes: Vec<String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) figures: Vec<Figure>,
    /// Kept results may be older than these two.
    #[serde(default)]
    pub(crate) costs: Vec<Cost>,
    #[serde(default)]
    pub(crate) attacks: Vec<Attack>,
    /// How long it took, in s.
    took: f64,
}

/// Where and when it was measured.
#[derive(Default, Deserialize, Serialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) server: String,
    module: String,
    processor: String,
    cores: usize,
    system: String,
    /// How many processes wanted a core, over the minute before; what else ran shows here.
    load_before: String,
    load_after: String,
}

/// Redislock beside something, or itself.
#[derive(Deserialize, Serialize)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) beside: String,
    pub(crate) bound: Option<Bound>,
    pub(crate) unit: Cow<'static, str>,
    /// By the clock, or whatever the unit says.
    pub(crate) value: Spread,
    /// By the server's processor time.
    pub(crate) cpu: Option<Spread>,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// One measure of one contestant.
#[derive(Deserialize, Serialize)]
pub(crate) struct Figure {
    pub(crate) work: String,
    pub(crate) who: String,
    pub(crate) unit: Cow<'static, str>,
    pub(crate) value: Spread,
    /// The server's processor time for one, in µs.
    pub(crate) cpu_us: Option<Spread>,
    pub(crate) remark: String,
}

/// What failures cost the users of a lock.
#[derive(Deserialize, Serialize)]
pub(crate) struct Cost {
    pub(crate) who: String,
    /// One for each of `EVENTS`: how long until the next holder had it, in ms; none: it was not waited for any longer.
    pub(crate) waits_ms: [Option<f64>; EVENTS.len()],
}

/// What one client did to all others.
#[derive(Deserialize, Serialize)]
pub(crate) struct Attack {
    pub(crate) what: String,
    /// The longest `PING` of another client meanwhile, and right before, in ms.
    pub(crate) longest: Spread,
    pub(crate) quiet: Spread,
}

impl Report {
    pub(crate) fn new(server: String, quick: bool) -> Self {
        Self { machine: Machine::here(server), quick, ..Self::default() }
    }

    /// Each is told once.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Says that figures are not to be believed as they stand.
    pub(crate) fn warn(&mut self, warning: &str) {
        self.note(format!("WARNING: {warning}"));
    }

    /// No more is to come; it took that long.
    pub(crate) fn finish(&mut self, took: Duration) {
        self.machine.load_after = load();
        self.took = took.as_secs_f64().round();
    }

    /// Where and when, in a line.
    pub(crate) fn about(&self) -> String {
        let Machine { date, server, module, processor, cores, system, load_before, load_after } =
            &self.machine;
        let quick = if self.quick { " (a quick run)" } else { "" };
        format!(
            "{date}{quick}: {server}, Redislock {module}; {processor}, {cores} cores, {system}; load average \
             {load_before} before, {load_after} after; in {} s.\n\n",
            self.took
        )
    }

    /// What is to be known, the ratios, and the figures behind them, in Markdown that reads as it is.
    pub(crate) fn tables(&self) -> String {
        let mut text: String = self.notes.iter().map(|note| format!("- {note}\n")).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        let mut add = |before: &str, titles: &[&str], cells: Vec<Vec<String>>, after: &str| {
            if !cells.is_empty() {
                text += &format!("{before}{}{after}", table(titles, cells));
            }
        };
        let titles =
            ["work", "compared with", "target", "median (middle half; min..max)", "by server CPU", ""];
        add("", &titles, self.rows.iter().map(Row::cells).collect(), "\n");
        let titles = ["work", "contestant", "median (min..max)", "unit", "server CPU, µs each", "remark"];
        add("", &titles, self.figures.iter().map(Figure::cells).collect(), "");
        let before = "What a failure costs: the time until the next holder has the lock.\n\n";
        add(before, &[&["lock"], &EVENTS[..]].concat(), self.costs.iter().map(Cost::cells).collect(), "");
        let before = "What one client can do to all others: the longest PING of another client, in ms.\n\n";
        let titles = ["attack", "longest PING", "without it", "more"];
        add(before, &titles, self.attacks.iter().map(Attack::cells).collect(), "");
        text
    }
}

impl Machine {
    /// Whose figures, and of when.
    pub(crate) fn caption(&self) -> String {
        format!("{}, {}", self.server, self.date)
    }

    fn here(server: String) -> Self {
        let processor = CpuInfo::current().ok().and_then(|info| info.model_name(0).map(str::to_owned));
        let system = Version::current().map_or(String::new(), |linux| {
            format!("{} {}.{}.{}", env::consts::OS, linux.major, linux.minor, linux.patch)
        });
        Self {
            // The script tells; there is no calendar here.
            date: env::var("BENCH_DATE").unwrap_or_else(|_| "undated".into()),
            server,
            module: env!("CARGO_PKG_VERSION").into(),
            processor: processor.unwrap_or("unknown processor".into()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            system,
            load_before: load(),
            ..Self::default()
        }
    }
}

fn load() -> String {
    LoadAverage::current().map_or(String::new(), |load| format!("{:.2}", load.one))
}

impl Row {
    pub(crate) fn new(work: impl Into<String>, beside: &str, unit: &'static str, value: Spread) -> Self {
        Self { work: work.into(), beside: beside.into(), bound: None, unit: unit.into(), value, cpu: None }
    }

    pub(crate) fn ratio(work: impl Into<String>, beside: &str, value: Spread) -> Self {
        Self::new(work, beside, "x", value)
    }

    pub(crate) fn at_least(self, bound: impl Into<Option<f64>>) -> Self {
        Self { bound: bound.into().map(Bound::AtLeast), ..self }
    }

    pub(crate) fn at_most(self, bound: impl Into<Option<f64>>) -> Self {
        Self { bound: bound.into().map(Bound::AtMost), ..self }
    }

    pub(crate) fn cpu(self, cpu: Spread) -> Self {
        Self { cpu: Some(cpu), ..self }
    }

    pub(crate) fn beside(self, beside: &str) -> Self {
        Self { beside: beside.into(), ..self }
    }

    fn cells(&self) -> Vec<String> {
        let unit = &self.unit;
        let (bound, verdict) = self.bound.map_or_else(Default::default, |bound| {
            let (how, most) = match bound {
                Bound::AtLeast(least) => ("least", least),
                Bound::AtMost(most) => ("most", most),
            };
            (format!("at {how} {most}{unit}"), self.verdict(bound))
        });
        let text = |value: Spread| format!("{}{unit}", value.in_full());
        let cpu = self.cpu.map(text).unwrap_or_default();
        vec![self.work.clone(), self.beside.clone(), bound, text(self.value), cpu, verdict.into()]
    }

    fn verdict(&self, bound: Bound) -> &'static str {
        let is_met = |value: Spread| match bound {
            Bound::AtLeast(least) => value.median >= least,
            Bound::AtMost(most) => value.median <= most,
        };
        match (is_met(self.value), self.cpu.map(is_met)) {
            (true, None | Some(true)) => "met",
            (false, None | Some(false)) => "MISSED",
            // As where the machine has other things to do.
            (true, Some(false)) => "met by the clock, missed by CPU",
            (false, Some(true)) => "missed by the clock, met by CPU",
        }
    }
}

impl Figure {
    pub(crate) fn new(work: impl Into<String>, who: &str, unit: &'static str, value: Spread) -> Self {
        let (work, who, remark) = (work.into(), who.into(), String::new());
        Self { work, who, unit: unit.into(), value, cpu_us: None, remark }
    }

    pub(crate) fn cpu(self, cpu: Spread) -> Self {
        Self { cpu_us: Some(cpu), ..self }
    }

    pub(crate) fn remark(self, remark: impl Into<String>) -> Self {
        Self { remark: remark.into(), ..self }
    }

    fn cells(&self) -> Vec<String> {
        let Self { work, who, unit, value, cpu_us, remark } = self;
        let cpu = cpu_us.map(|cpu| cpu.to_string()).unwrap_or_default();
        vec![work.clone(), who.clone(), value.to_string(), unit.to_string(), cpu, remark.clone()]
    }
}

impl Cost {
    fn cells(&self) -> Vec<String> {
        let waits = self.waits_ms.iter().map(|wait| match wait {
            Some(ms) => format!("{} ms", Spread::one(*ms)),
            None => format!("over {} s", LIMIT.as_secs()),
        });
        [self.who.clone()].into_iter().chain(waits).collect()
    }
}

impl Attack {
    fn cells(&self) -> Vec<String> {
        let more = Spread::one((self.longest.median - self.quiet.median).max(0.0));
        [self.what.clone()]
            .into_iter()
            .chain([self.longest, self.quiet, more].map(|ms| ms.to_string()))
            .collect()
    }
}

/// A Markdown table whose columns are in line.
pub(crate) fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut lines: Vec<Vec<String>> = vec![titles.iter().map(|&title| title.into()).collect()];
    lines.extend(rows);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    lines.insert(1, widths.iter().map(|width| "-".repeat(*width)).collect());
    let cell = |(cell, width): (&String, &usize)| format!("| {cell:width$} ");
    let line = |line: &Vec<String>| line.iter().zip(&widths).map(cell).collect::<String>() + "|\n";
    lines.iter().map(line).collect()
}
