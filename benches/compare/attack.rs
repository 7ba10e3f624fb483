//! What one client did to all others, in the report.

use serde::{Deserialize, Serialize};

use crate::stats::Spread;

#[derive(Deserialize, Serialize)]
pub(crate) struct Attack {
    pub(crate) what: String,
    /// The longest `PING` of another client meanwhile, and right before, in ms; none: it did not come so far.
    pub(crate) longest: Option<Spread>,
    pub(crate) quiet: Option<Spread>,
    /// What else it led to.
    pub(crate) remark: String,
}

impl Attack {
    pub(crate) const TITLES: [&str; 5] = ["attack", "longest PING", "without it", "more", "what else"];

    pub(crate) fn cells(&self) -> Vec<String> {
        let text = |value: Option<Spread>| value.map_or("-".into(), |value| value.to_string());
        let more =
            self.longest.zip(self.quiet).map(|(longest, quiet)| (longest.median - quiet.median).max(0.0));
        let more = text(more.map(Spread::one));
        vec![self.what.clone(), text(self.longest), text(self.quiet), more, self.remark.clone()]
    }
}
