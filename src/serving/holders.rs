//! Who holds a lock that somebody waits for: looked up where no command was given its key. Looking leaves no trace.

use super::state::STATE;
use crate::keyspace::LockKey;
use crate::lock::{Deadline, Grant, Held, Now, Owner};
use crate::server::{Arg, Ctx};
use crate::waiting::Place;

/// Who holds a lock that somebody waits for.
#[derive(Default)]
pub(crate) struct Holders {
    pub(crate) count: usize,
    /// Some of them, the oldest grant first.
    pub(crate) first: Vec<Holder>,
    /// Where it is free: the owner for whom it is reserved.
    pub(crate) reserved_for: Option<Owner<'static>>,
}

pub(crate) struct Holder {
    pub(crate) grant: Grant,
    pub(crate) deadline: Deadline,
    /// The connection that keeps the grant alive.
    pub(crate) client: Option<u64>,
}

/// Who holds a lock of any database, so many at most.
pub(crate) fn holders_of(ctx: &Ctx<'_>, place: &Place, most: usize, now: Now) -> Holders {
    let look = || ctx.with_string(&place.key, |key| holders(ctx, key, most, now));
    let (count, held) = ctx.in_db(place.db, look).unwrap_or_default();
    STATE.with(|state| {
        let client = |grant: &Grant| state.session_client(place.at(), grant.fence());
        let with_client = |(grant, deadline)| Holder { client: client(&grant), grant, deadline };
        let first: Vec<Holder> = held.into_iter().map(with_client).collect();
        let reserved_for = if first.is_empty() { state.reserved_for(place.at()) } else { None };
        Holders { count, first, reserved_for }
    })
}

/// How many hold a lock of the selected database, and the first of them.
fn holders(ctx: &Ctx<'_>, key: Arg<'_>, most: usize, now: Now) -> (usize, Vec<(Grant, Deadline)>) {
    let Ok(lock) = LockKey::peek(ctx, key) else { return (0, Vec::new()) };
    let Some(value) = lock.value() else { return (0, Vec::new()) };
    // Of many whose leases are over only the first are passed over: an alarm is about to end them.
    let held = value.alive(lock.deadline(), now.millis()).take(most);
    let held: Vec<_> = held.map(|Held { grant, deadline }| (grant.clone(), deadline)).collect();
    (value.count(), held)
}
