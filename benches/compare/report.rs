//! What was measured: ratios with their bounds, and the figures behind them, for people and for machines.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;
use std::{env, fs};

use serde::{Deserialize, Serialize};

use crate::attack::Attack;
use crate::stats::Spread;

/// How a note begins that is a warning.
const WARNING: &str = "WARNING: ";

/// What happens to the users of a lock, in part `failures`. In the end of it, one process waits.
pub(crate) const EVENTS: [&str; 3] =
    ["the holder is killed", "the holder is stopped", "the first waiter is killed"];
/// No wait is looked at for longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(35);

/// All results of a part of a run.
#[derive(Deserialize, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    /// What is to be known before the figures are believed.
    notes: Vec<String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) figures: Vec<Figure>,
    /// What failures cost. Kept results may be older.
    #[serde(default)]
    costs: Vec<Cost>,
    /// What one client can do to all others. Kept results may be older.
    #[serde(default)]
    attacks: Vec<Attack>,
    /// How long it took, in s.
    took: f64,
}

/// Where and when it was measured.
#[derive(Deserialize, Serialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) server: String,
    module: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
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

impl Report {
    pub(crate) fn new(server: String, quick: bool) -> Self {
        Self {
            machine: Machine::here(server),
            quick,
            notes: Vec::new(),
            rows: Vec::new(),
            figures: Vec::new(),
            costs: Vec::new(),
            attacks: Vec::new(),
            took: 0.0,
        }
    }

    /// Each is told once.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(crate) fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows);
    }

    pub(crate) fn figure(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    pub(crate) fn cost(&mut self, cost: Cost) {
        self.costs.push(cost);
    }

    pub(crate) fn attack(&mut self, attack: Attack) {
        self.attacks.push(attack);
    }

    /// Says that figures are not to be believed as they stand.
    pub(crate) fn warn(&mut self, warning: &str) {
        self.note(format!("{WARNING}{warning}"));
    }

    /// No more is to come; it took that long.
    pub(crate) fn finish(&mut self, took: Duration) {
        self.machine.load_after = load();
        self.took = took.as_secs_f64().round();
    }

    /// When, and on which server.
    pub(crate) fn dated(&self) -> String {
        format!("{}{}", self.machine.caption(), if self.quick { ", a quick run" } else { "" })
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

    /// Where and when, and all tables.
    pub(crate) fn in_full(&self) -> String {
        self.about() + &self.tables()
    }

    /// What is to be known, the ratios, and the figures behind them, in Markdown that reads as it is.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        for note in &self.notes {
            let _ = writeln!(text, "- {note}");
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        if !self.rows.is_empty() {
            text += &table(
                &["work", "compared with", "target", "median (middle half; min..max)", "by server CPU", ""],
                self.rows.iter().map(Row::cells),
            );
            text.push('\n');
        }
        if !self.figures.is_empty() {
            text += &table(
                &["work", "contestant", "median (min..max)", "unit", "server CPU, µs each", "remark"],
                self.figures.iter().map(Figure::cells),
            );
        }
        if !self.costs.is_empty() {
            text += "What a failure costs: the time until the next holder has the lock.\n\n";
            let titles: Vec<&str> = ["lock"].into_iter().chain(EVENTS).collect();
            text += &table(&titles, self.costs.iter().map(Cost::cells));
        }
        if !self.attacks.is_empty() {
            text += "What one client can do to all others: the longest PING of another client, in ms.\n\n";
            text += &table(&Attack::TITLES, self.attacks.iter().map(Attack::cells));
        }
        text
    }
}

impl Machine {
    /// Whose figures, and of when.
    pub(crate) fn caption(&self) -> String {
        format!("{}, {}", self.server, self.date)
    }

    fn here(server: String) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let load = load();
        Self {
            // The script tells; there is no calendar here.
            date: env::var("BENCH_DATE").unwrap_or_else(|_| "undated".into()),
            server,
            module: env!("CARGO_PKG_VERSION").into(),
            processor: model.map_or("unknown processor", |(_, model)| model.trim()).into(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            system: format!("{} {}", env::consts::OS, release.split('-').next().unwrap_or_default().trim()),
            load_before: load,
            load_after: String::new(),
        }
    }
}

fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().into()
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let (bound, verdict) = match self.bound {
            Some(bound) => (bound.text(&self.unit), self.verdict(bound)),
            None => (String::new(), ""),
        };
        vec![
            self.work.clone(),
            self.beside.clone(),
            bound,
            format!("{}{}", self.value.in_full(), self.unit),
            self.cpu.map_or(String::new(), |cpu| format!("{}{}", cpu.in_full(), self.unit)),
            verdict.into(),
        ]
    }

    fn verdict(&self, bound: Bound) -> &'static str {
        match (bound.is_met(self.value), self.cpu.map(|cpu| bound.is_met(cpu))) {
            (true, None | Some(true)) => "met",
            (false, None | Some(false)) => "MISSED",
            // As where the machine has other things to do.
            (true, Some(false)) => "met by the clock, missed by CPU",
            (false, Some(true)) => "missed by the clock, met by CPU",
        }
    }
}

impl Bound {
    pub(crate) fn is_met(self, value: Spread) -> bool {
        match self {
            Self::AtLeast(bound) => value.median >= bound,
            Self::AtMost(bound) => value.median <= bound,
        }
    }

    pub(crate) fn text(self, unit: &str) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {bound}{unit}"),
            Self::AtMost(bound) => format!("at most {bound}{unit}"),
        }
    }
}

impl Figure {
    fn cells(&self) -> Vec<String> {
        vec![
            self.work.clone(),
            self.who.clone(),
            self.value.to_string(),
            self.unit.to_string(),
            self.cpu_us.map_or(String::new(), |cpu| cpu.to_string()),
            self.remark.clone(),
        ]
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

/// A Markdown table whose columns are in line.
pub(crate) fn table(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let titles = titles.iter().map(|&title| title.into()).collect();
    let mut lines: Vec<Vec<String>> = vec![titles];
    lines.extend(rows);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect();
    lines.insert(1, rule);
    let mut text = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(&widths) {
            let pad = width - cell.chars().count();
            let _ = write!(text, "| {cell}{} ", " ".repeat(pad));
        }
        text.push_str("|\n");
    }
    text
}
