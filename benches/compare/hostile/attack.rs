//! What one client did to all others, in the report.

use serde::{Deserialize, Serialize};

use super::stage::Seen;
use crate::stats::Spread;

#[derive(Deserialize, Serialize)]
pub(crate) struct Attack {
    what: String,
    /// The longest `PING` of another client meanwhile, and right before, in ms; none: it did not come so far.
    longest: Option<Spread>,
    quiet: Option<Spread>,
    /// What else it led to.
    remark: String,
}

impl Attack {
    pub(crate) const TITLES: [&str; 5] = ["attack", "longest PING", "without it", "more", "what else"];

    /// Of several rounds. The remark is that of the one in the middle.
    pub(super) fn new(what: String, mut rounds: Vec<Seen>) -> Self {
        rounds.sort_by(|one, other| one.longest.unwrap_or(0.0).total_cmp(&other.longest.unwrap_or(0.0)));
        let spread = |of: fn(&Seen) -> Option<f64>| {
            let values: Vec<f64> = rounds.iter().filter_map(of).collect();
            (!values.is_empty()).then(|| Spread::of(values))
        };
        let (longest, quiet) = (spread(|seen| seen.longest), spread(|seen| seen.quiet));
        Self { what, longest, quiet, remark: rounds[rounds.len() / 2].notes.join("; ") }
    }

    pub(crate) fn cells(&self) -> Vec<String> {
        let text = |value: Option<Spread>| value.map_or("-".into(), |value| value.to_string());
        let more =
            self.longest.zip(self.quiet).map(|(longest, quiet)| (longest.median - quiet.median).max(0.0));
        let more = text(more.map(Spread::one));
        vec![self.what.clone(), text(self.longest), text(self.quiet), more, self.remark.clone()]
    }
}
