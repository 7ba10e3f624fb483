//! Results: ratios with their targets, and the figures behind them.

use std::env;
use std::time::Duration;

use procfs::sys::kernel::Version;
use procfs::{CpuInfo, Current as _, LoadAverage};

use crate::stats::Spread;

/// All results of one part of a run.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    /// Remarks that a reader needs before trusting the figures.
    notes: Vec<String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) figures: Vec<Figure>,
    /// A table with columns of its own, after the rows.
    pub(crate) more: String,
    /// How long the part took, in s.
    took: f64,
}

/// Where and when the measurements took place.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) server: String,
    module: String,
    processor: String,
    cores: usize,
    system: String,
    /// The load average of the minute before, which shows what else ran.
    load_before: String,
    load_after: String,
}

/// Redislock compared with another contestant, or with itself.
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) beside: String,
    pub(crate) bound: Option<Bound>,
    pub(crate) unit: &'static str,
    /// The ratio by the clock, or by the measure that the unit names.
    pub(crate) value: Spread,
    /// The ratio by the server's processor time.
    pub(crate) cpu: Option<Spread>,
}

#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// One contestant's result for one kind of work.
pub(crate) struct Figure {
    pub(crate) work: String,
    pub(crate) who: String,
    pub(crate) unit: &'static str,
    pub(crate) value: Spread,
    /// The server's processor time per operation, in µs.
    pub(crate) cpu_us: Option<Spread>,
    pub(crate) remark: String,
}

impl Report {
    pub(crate) fn new(server: String, quick: bool) -> Self {
        Self { machine: Machine::here(server), quick, ..Self::default() }
    }

    /// Adds a note, unless the report already has it.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds a warning that the figures can't be trusted as they stand.
    pub(crate) fn warn(&mut self, warning: &str) {
        self.note(format!("WARNING: {warning}"));
    }

    /// Completes the report of a part that took this long.
    pub(crate) fn finish(&mut self, took: Duration) {
        self.machine.load_after = load();
        self.took = took.as_secs_f64().round();
    }

    /// Returns where and when it was measured, in a line.
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

    /// Returns the notes, the ratios and, on request, the figures behind them, as Markdown that is also readable as plain text.
    pub(crate) fn tables(&self, with_figures: bool) -> String {
        let mut text: String = self.notes.iter().map(|note| format!("- {note}\n")).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        let titles =
            ["work", "compared with", "target", "median (middle half; min..max)", "by server CPU", ""];
        let rows = table(&titles, self.rows.iter().map(Row::cells));
        let titles = ["work", "contestant", "median (min..max)", "unit", "server CPU, µs each", "remark"];
        let figures = table(&titles, self.figures.iter().map(Figure::cells));
        let figures = if with_figures { figures } else { String::new() };
        let tables = [rows, figures, self.more.clone()].into_iter().filter(|table| !table.is_empty());
        text + &tables.collect::<Vec<_>>().join("\n")
    }
}

impl Machine {
    /// Returns the server and the date.
    pub(crate) fn caption(&self) -> String {
        format!("{}, {}", self.server, self.date)
    }

    fn here(server: String) -> Self {
        let processor = CpuInfo::current().ok().and_then(|info| info.model_name(0).map(str::to_owned));
        let system = Version::current().map_or(String::new(), |linux| {
            format!("{} {}.{}.{}", env::consts::OS, linux.major, linux.minor, linux.patch)
        });
        Self {
            // `scripts/bench` passes the date, because Rust's standard library has no calendar.
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
        Self { work: work.into(), beside: beside.into(), bound: None, unit, value, cpu: None }
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
            // The two can differ if the machine is busy with other work.
            (true, Some(false)) => "met by the clock, missed by CPU",
            (false, Some(true)) => "missed by the clock, met by CPU",
        }
    }
}

impl Figure {
    pub(crate) fn new(work: impl Into<String>, who: &str, unit: &'static str, value: Spread) -> Self {
        let (work, who, remark) = (work.into(), who.into(), String::new());
        Self { work, who, unit, value, cpu_us: None, remark }
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
        vec![work.clone(), who.clone(), value.to_string(), (*unit).into(), cpu, remark.clone()]
    }
}

/// Returns a Markdown table with aligned columns, or nothing if there are no rows.
pub(crate) fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut lines: Vec<Vec<String>> = vec![titles.iter().map(|&title| title.into()).collect()];
    lines.extend(rows);
    if lines.len() == 1 {
        return String::new();
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    lines.insert(1, widths.iter().map(|width| "-".repeat(*width)).collect());
    let cell = |(cell, width): (&String, &usize)| format!("| {cell:width$} ");
    let line = |line: &Vec<String>| line.iter().zip(&widths).map(cell).collect::<String>() + "|\n";
    lines.iter().map(line).collect()
}
