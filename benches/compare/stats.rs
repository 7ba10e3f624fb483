//! Medians and spreads.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A measure over several rounds.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
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

    /// Of what was measured once.
    pub(crate) fn one(value: f64) -> Self {
        Self { median: value, min: value, low: value, high: value, max: value }
    }

    /// The middle half of the rounds beside the extremes.
    pub(crate) fn in_full(&self) -> String {
        let digits = self.digits();
        let Self { median, min, low, high, max } = self;
        if min == max {
            return self.to_string();
        }
        format!("{median:.digits$} ({low:.digits$}..{high:.digits$}; {min:.digits$}..{max:.digits$})")
    }

    /// The median and the middle half.
    pub(crate) fn in_short(&self, unit: &str) -> String {
        let digits = self.digits();
        let Self { median, min, low, high, max } = self;
        if min == max {
            return format!("{median:.digits$}{unit}");
        }
        format!("{median:.digits$}{unit} ({low:.digits$}..{high:.digits$})")
    }

    /// How many digits after the point make three that count.
    fn digits(&self) -> usize {
        (2 - self.median.abs().max(1e-9).log10().floor() as i32).clamp(0, 2) as usize
    }
}

/// The median and the extremes.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits();
        let Self { median, min, max, .. } = self;
        if *max == 0.0 {
            return f.write_str("0");
        }
        if min == max {
            write!(f, "{median:.digits$}")
        } else {
            write!(f, "{median:.digits$} ({min:.digits$}..{max:.digits$})")
        }
    }
}

/// The values in order. There is at least one.
pub(crate) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    assert!(!values.is_empty(), "nothing was measured");
    values.sort_by(f64::total_cmp);
    values
}

/// The value that so many of a hundred do not exceed; between two, in proportion.
pub(crate) fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let place = percent / 100.0 * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * place.fract()
}
