//! Contestants take turns in rounds; afterwards, their results are compared.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::report::{Figure, Report, Row};
use crate::stats::{Spread, percentile, sorted};

/// How thoroughly a run measures.
pub(crate) struct Plan {
    pub(crate) quick: bool,
    /// The folder in which the programs' folders are made.
    pub(crate) folder: PathBuf,
}

impl Plan {
    /// Returns the value for a full run, or that for a quick one.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// As `pick`, in ms.
    pub(crate) fn ms(&self, full: u64, quick: u64) -> Duration {
        Duration::from_millis(self.pick(full, quick))
    }
}

/// Tells the user what is running.
pub(crate) fn progress(what: &str) {
    eprintln!("{what}");
}

/// The result of one turn.
#[derive(Clone, Default)]
pub(crate) struct Sample {
    /// Operations per second, or the time of one operation, as the unit says.
    pub(crate) value: f64,
    /// The server's processor time per operation.
    pub(crate) cpu_us: f64,
    /// For a load: how busy the server and the generator were. Other kinds of work store other shares.
    pub(crate) shares: [f64; 2],
    /// The times of single operations.
    pub(crate) times: Vec<f64>,
}

impl Sample {
    /// Returns a sample with a rate: `count` operations took `wall` by the clock, and `cpu_ns` of the server's processor time.
    pub(crate) fn rate(count: f64, wall: Duration, cpu_ns: f64) -> Self {
        Self { value: count / wall.as_secs_f64(), cpu_us: cpu_ns / 1e3 / count, ..Self::default() }
    }

    /// As `rate`, but with the time of one operation, in µs.
    pub(crate) fn each(count: usize, wall: Duration, cpu_ns: f64) -> Self {
        let count = count as f64;
        Self { value: wall.as_secs_f64() * 1e6 / count, cpu_us: cpu_ns / 1e3 / count, ..Self::default() }
    }
}

/// The samples of all contestants, in the order of the turns.
pub(crate) struct Rounds {
    work: String,
    unit: &'static str,
    /// Each contestant's name and samples.
    pub(crate) all: Vec<(String, Vec<Sample>)>,
}

impl Rounds {
    /// Lets contestants take turns, round by round; round 0 warms up. `start` makes them anew several times, because the random placement
    /// of a process in memory makes a server faster or slower.
    pub(crate) fn play<C>(
        work: &str,
        unit: &'static str,
        starts: usize,
        rounds: RangeInclusive<usize>,
        mut start: impl FnMut() -> Vec<(String, C)>,
        mut turn: impl FnMut(&mut C) -> Sample,
    ) -> Self {
        let mut all: Vec<(String, Vec<Sample>)> = Vec::new();
        for begun in 1..=starts {
            let mut contestants = start();
            if begun == 1 {
                all = contestants.iter().map(|(who, _)| (who.clone(), Vec::new())).collect();
            }
            for round in rounds.clone() {
                for place in order(contestants.len(), round) {
                    let sample = turn(&mut contestants[place].1);
                    if round > 0 {
                        all[place].1.push(sample);
                    }
                }
                if starts == 1 {
                    progress(&format!("  {work}: {round}/{}", rounds.end()));
                }
            }
            if starts > 1 {
                progress(&format!("  {work}: {begun}/{starts}"));
            }
        }
        Self { work: work.into(), unit, all }
    }

    /// Returns `None` if the contestant was not measured.
    pub(crate) fn of(&self, who: &str) -> Option<&[Sample]> {
        let (_, samples) = self.all.iter().find(|(name, _)| name == who)?;
        Some(samples)
    }

    /// Compares two contestants, if both were measured. A ratio above 1 means that the first is better, for rates and for processor time.
    pub(crate) fn row(&self, work: &str, who: &str, beside: &str) -> Option<Row> {
        let (ours, theirs) = (self.of(who)?, self.of(beside)?);
        let is_time = self.unit == "µs" || self.unit == "ms";
        let (dividend, divisor) = if is_time { (ours, theirs) } else { (theirs, ours) };
        let row = Row::ratio(work, beside, ratio(ours, theirs, |sample| sample.value));
        Some(row.cpu(ratio(dividend, divisor, |sample| sample.cpu_us)))
    }

    /// Returns the figures of all contestants, each with its remark.
    pub(crate) fn figures(&self, remark: impl Fn(&[Sample]) -> String) -> Vec<Figure> {
        let figure = |(who, samples): &(String, Vec<Sample>)| {
            Figure::new(&self.work, who, self.unit, spread(samples, |sample| sample.value))
                .cpu(spread(samples, |sample| sample.cpu_us))
                .remark(remark(samples))
        };
        self.all.iter().map(figure).collect()
    }

    /// Warns in the report if a server was idle for part of the time: then the figure is not what the server can do.
    pub(crate) fn warn(&self, report: &mut Report) {
        let median = |samples: &[Sample], share: usize| spread(samples, |sample| sample.shares[share]).median;
        let busy = self.all.iter().map(|(who, samples)| (who, median(samples, 0)));
        let idle = busy.filter(|(_, busy)| *busy < AT_ITS_LIMIT);
        let idle: Vec<String> = idle.map(|(who, busy)| format!("{who} {:.0} %", 100.0 * busy)).collect();
        if !idle.is_empty() {
            let generator = self.all.iter().map(|(_, samples)| median(samples, 1)).fold(0.0, f64::max);
            let why =
                if generator > GENERATOR_HAS_TIME { "The generator is too slow, or other" } else { "Other" };
            report.warn(&format!(
                "{}: the server was not at its limit ({}). {why} programs took the processor; rely on the column \
                 \"by server CPU\".",
                self.work,
                idle.join(", "),
            ));
        }
    }
}

/// Throughput counts as the server's limit only if the server is at least this busy.
const AT_ITS_LIMIT: f64 = 0.95;
/// If the generator is not busier than this, the server does not have to wait for it.
const GENERATOR_HAS_TIME: f64 = 0.8;

/// Returns how busy the server and the generator were, from the shares of a load.
pub(crate) fn busy(samples: &[Sample]) -> String {
    let [server, generator] =
        [0, 1].map(|share| 100.0 * spread(samples, |sample| sample.shares[share]).median);
    format!("server {server:.0} % busy, generator {generator:.0} %")
}

pub(crate) fn spread<S>(samples: &[S], of: impl Fn(&S) -> f64) -> Spread {
    Spread::of(samples.iter().map(of))
}

/// Returns the ratios of one contestant's measure to another's, round by round.
pub(crate) fn ratio<S>(dividend: &[S], divisor: &[S], of: impl Fn(&S) -> f64) -> Spread {
    Spread::of(dividend.iter().zip(divisor).map(|(dividend, divisor)| of(dividend) / of(divisor)))
}

/// Returns the single times of all turns, sorted.
pub(crate) fn times(samples: &[Sample]) -> Vec<f64> {
    sorted(samples.iter().flat_map(|sample| sample.times.iter().copied()))
}

/// Returns the median, the 99th percentile, and the maximum.
pub(crate) fn percentiles(sorted: &[f64]) -> [f64; 3] {
    [50.0, 99.0, 100.0].map(|percent| percentile(sorted, percent))
}

/// Returns the order in which this many contestants take their turns in a round. It changes from round to round, because what ran right
/// before can make a turn faster or slower by a third.
pub(crate) fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    fastrand::Rng::with_seed(round as u64).shuffle(&mut order);
    order
}
