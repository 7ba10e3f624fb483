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
    let (count, held) = peek(ctx, place, |lock| holders(lock, most, now)).unwrap_or_default();
    STATE.with(|state| {
        let client = |grant: &Grant| state.session_client(place.at(), grant.fence());
        let with_client = |(grant, deadline)| Holder { client: client(&grant), grant, deadline };
        let first: Vec<Holder> = held.into_iter().map(with_client).collect();
        let reserved_for = if first.is_empty() { state.reserved_for(place.at()) } else { None };
        Holders { count, first, reserved_for }
    })
}

/// Looks at a lock of any database; none where its key holds something else.
pub(super) fn peek<R>(ctx: &Ctx<'_>, place: &Place, look: impl FnOnce(&LockKey<'_>) -> R) -> Option<R> {
    let peek = |key: Arg<'_>| LockKey::peek(ctx, key).ok().map(|lock| look(&lock));
    ctx.in_db(place.db, || ctx.with_string(&place.key, peek)).flatten()
}

/// How many hold a lock, and the first of them.
fn holders(lock: &LockKey<'_>, most: usize, now: Now) -> (usize, Vec<(Grant, Deadline)>) {
    let Some(value) = lock.value() else { return (0, Vec::new()) };
    let (until, millis) = (lock.deadline(), now.millis());
    let held = value.alive(until, millis).take(most);
    let held: Vec<_> = held.map(|Held { grant, deadline }| (grant.clone(), deadline)).collect();
    // Those whose leases are over are still there until a timer ends them: while clients are paused, for long.
    (value.count().saturating_sub(value.lapsed(until, millis).count()), held)
}
