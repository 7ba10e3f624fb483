//! Medians and spreads.

use std::fmt;

/// A measure over several rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    /// A quarter of the rounds is below this.
    pub(crate) low: f64,
    /// A quarter of the rounds is above this.
    pub(crate) high: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let sorted = sorted(values);
        let [min, low, median, high, max] = [0.0, 25.0, 50.0, 75.0, 100.0].map(|at| percentile(&sorted, at));
        Self { median, min, low, high, max }
    }

    pub(crate) fn one(value: f64) -> Self {
        Self { median: value, min: value, low: value, high: value, max: value }
    }

    /// Returns the median, the middle half of the rounds, and the extremes.
    pub(crate) fn in_full(&self) -> String {
        self.text("", &[(self.low, self.high), (self.min, self.max)])
    }

    /// Returns the median and the middle half.
    pub(crate) fn in_short(&self, unit: &str) -> String {
        self.text(unit, &[(self.low, self.high)])
    }

    /// Returns the median with ranges, rounded to three digits of the median. A single measurement is shown without ranges.
    fn text(&self, unit: &str, ranges: &[(f64, f64)]) -> String {
        let digits = (2 - self.median.abs().max(1e-9).log10().floor() as i32).clamp(0, 2) as usize;
        let ranges: Vec<_> =
            ranges.iter().map(|(from, to)| format!("{from:.digits$}..{to:.digits$}")).collect();
        match self.median {
            _ if self.max == 0.0 => format!("0{unit}"),
            median if self.min == self.max => format!("{median:.digits$}{unit}"),
            median => format!("{median:.digits$}{unit} ({})", ranges.join("; ")),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text("", &[(self.min, self.max)]))
    }
}

/// Sorts the values, of which there must be at least one.
pub(crate) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    assert!(!values.is_empty(), "nothing was measured");
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the value that this percentage of the values does not exceed, interpolated between two values.
pub(crate) fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let place = percent / 100.0 * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * place.fract()
}
