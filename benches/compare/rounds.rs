//! How contestants take turns, in rounds, and what comes of it: one beside the other.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::report::{Figure, Report, Row};
use crate::stats::{Spread, percentile, sorted};

/// How thoroughly a run measures.
pub(crate) struct Plan {
    pub(crate) quick: bool,
    /// Where the programs have their folders.
    pub(crate) folder: PathBuf,
}

impl Plan {
    /// How often, or how long: in full, or quickly.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// As `pick`, in ms.
    pub(crate) fn ms(&self, full: u64, quick: u64) -> Duration {
        Duration::from_millis(self.pick(full, quick))
    }
}

/// Shows what is going on.
pub(crate) fn progress(what: &str) {
    eprintln!("{what}");
}

/// What a turn came to.
#[derive(Clone, Default)]
pub(crate) struct Sample {
    /// How often a second, or how long once: as the unit says.
    pub(crate) value: f64,
    /// The server's processor time for one.
    pub(crate) cpu_us: f64,
    /// Shares of something.
    pub(crate) shares: [f64; 2],
    /// Single measurements.
    pub(crate) times: Vec<f64>,
}

impl Sample {
    /// Of so many in that time, for which the server used so much; as a rate.
    pub(crate) fn rate(count: f64, wall: Duration, cpu_ns: f64) -> Self {
        Self { value: count / wall.as_secs_f64(), cpu_us: cpu_ns / 1e3 / count, ..Self::default() }
    }

    /// The same, as the time that one took, in µs.
    pub(crate) fn each(count: usize, wall: Duration, cpu_ns: f64) -> Self {
        let count = count as f64;
        Self { value: wall.as_secs_f64() * 1e6 / count, cpu_us: cpu_ns / 1e3 / count, ..Self::default() }
    }
}

/// The samples of all contestants, turn by turn.
pub(crate) struct Rounds {
    work: String,
    unit: &'static str,
    /// Who, and how their turns went.
    pub(crate) all: Vec<(String, Vec<Sample>)>,
}

impl Rounds {
    /// Lets contestants take turns, round by round; round 0 warms up. `start` makes them anew some times: where a process' memory
    /// happens to lie makes a server faster or slower.
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

    /// None: it was not measured.
    pub(crate) fn of(&self, who: &str) -> Option<&[Sample]> {
        let (_, samples) = self.all.iter().find(|(name, _)| name == who)?;
        Some(samples)
    }

    /// One contestant beside another, where that was measured. Higher is better for rates, and for the server's time on them.
    pub(crate) fn row(&self, work: &str, who: &str, beside: &str) -> Option<Row> {
        let (ours, theirs) = (self.of(who)?, self.of(beside)?);
        let is_time = self.unit == "µs" || self.unit == "ms";
        let (dividend, divisor) = if is_time { (ours, theirs) } else { (theirs, ours) };
        let row = Row::ratio(work, beside, ratio(ours, theirs, |sample| sample.value));
        Some(row.cpu(ratio(dividend, divisor, |sample| sample.cpu_us)))
    }

    /// The figures of all, each with what there is to remark.
    pub(crate) fn figures(&self, remark: impl Fn(&[Sample]) -> String) -> Vec<Figure> {
        let figure = |(who, samples): &(String, Vec<Sample>)| {
            Figure::new(&self.work, who, self.unit, spread(samples, |sample| sample.value))
                .cpu(spread(samples, |sample| sample.cpu_us))
                .remark(remark(samples))
        };
        self.all.iter().map(figure).collect()
    }

    /// Says in the report whose server had time to spare: that figure is not what the server can do.
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

/// How busy a server is to be at least where throughput is what it can do.
const AT_ITS_LIMIT: f64 = 0.95;
/// Up to here the generator is not what a server waits for.
const GENERATOR_HAS_TIME: f64 = 0.8;

/// How busy the server and the generator were: the shares of a load.
pub(crate) fn busy(samples: &[Sample]) -> String {
    let [server, generator] =
        [0, 1].map(|share| 100.0 * spread(samples, |sample| sample.shares[share]).median);
    format!("server {server:.0} % busy, generator {generator:.0} %")
}

pub(crate) fn spread<S>(samples: &[S], of: impl Fn(&S) -> f64) -> Spread {
    Spread::of(samples.iter().map(of))
}

/// Of one contestant's measure to that of another, round by round.
pub(crate) fn ratio<S>(dividend: &[S], divisor: &[S], of: impl Fn(&S) -> f64) -> Spread {
    Spread::of(dividend.iter().zip(divisor).map(|(dividend, divisor)| of(dividend) / of(divisor)))
}

/// The single measurements of all turns, in order.
pub(crate) fn times(samples: &[Sample]) -> Vec<f64> {
    sorted(samples.iter().flat_map(|sample| sample.times.iter().copied()))
}

/// Their middle, what one of a hundred exceeds, and the longest.
pub(crate) fn percentiles(sorted: &[f64]) -> [f64; 3] {
    [50.0, 99.0, 100.0].map(|percent| percentile(sorted, percent))
}

/// In which order so many contestants take their turns in a round: another one in each, since what ran right before can make a
/// turn faster or slower by a third.
pub(crate) fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    fastrand::Rng::with_seed(round as u64).shuffle(&mut order);
    order
}
