//! The holders of a lock, of which there may be several.

use std::collections::HashMap;

use redis::Value;

use super::{Client, convert};

/// One grant, as `LOCK.INFO ... FULL` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) owner: String,
    pub(crate) fence: i64,
    pub(crate) holds: i64,
    pub(crate) lease: i64,
    pub(crate) held: i64,
    pub(crate) session: bool,
    /// `exclusive` or `shared`.
    pub(crate) mode: String,
    /// The most holders that the grant allows, itself included; 0: any number.
    pub(crate) limit: i64,
    pub(crate) label: String,
    /// The slot; 0: none.
    pub(crate) slot: i64,
}

impl Client {
    /// Returns all grants of a lock, the oldest first, or none if it is free.
    #[track_caller]
    pub(crate) fn holders(&mut self, key: &str) -> Vec<Holder> {
        let info: Option<HashMap<String, Value>> = self.ask(&format!("LOCK.INFO {key} FULL"));
        let Some(info) = info else { return Vec::new() };
        let grants: Vec<HashMap<String, String>> = convert(info["grants"].clone());
        let holders = grants.iter().map(|grant| {
            let number = |field: &str| grant[field].parse().unwrap();
            Holder {
                owner: grant["owner"].clone(),
                fence: number("fence"),
                holds: number("holds"),
                lease: number("lease-ms"),
                held: number("held-ms"),
                session: number("session") == 1,
                mode: grant["mode"].clone(),
                limit: number("limit"),
                label: grant["label"].clone(),
                slot: number("slot"),
            }
        });
        holders.collect()
    }

    /// Returns the owners of all grants, the oldest grant first.
    #[track_caller]
    pub(crate) fn holding(&mut self, key: &str) -> Vec<String> {
        self.holders(key).into_iter().map(|holder| holder.owner).collect()
    }
}

impl Holder {
    /// Returns what does not change with time: owner, fence, holds and room.
    pub(crate) fn lasting(&self) -> (&str, i64, i64, i64) {
        (&self.owner, self.fence, self.holds, self.limit)
    }
}
