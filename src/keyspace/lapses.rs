//! Tells which of the server's expired keys were locks, so that each lapse is counted, logged and published.
//!
//! The server says that a key has expired when its value is gone already. But right before, it tells the value's type
//! that the value is being taken out; what came out last is kept until then.

use crate::info;
use crate::lock::{Grant, Micros};
use crate::server::{self, Arg, Ctx, LogLevel, ServerCell, Unlinked};

struct Lapses {
    last: Option<Last>,
    /// We delete the key ourselves: that is no lapse.
    own: bool,
}

/// The lock that was taken out of the keyspace last.
struct Last {
    db: i32,
    key: Vec<u8>,
    grant: Grant,
    at: Micros,
}

/// How long, in µs, the server may take to say that what it took out has expired. There is nothing in between, but the
/// process may have to wait for a processor. (So a lock that is overwritten by a value that expires at once counts as lapsed.)
const SAME_STEP: Micros = 1_000;

static LAPSES: ServerCell<Lapses> = ServerCell::new(Lapses { last: None, own: false });

/// Runs what takes locks out of the keyspace without a lapse.
pub(super) fn none_in(body: impl FnOnce()) {
    LAPSES.with(|lapses| lapses.own = true);
    body();
    LAPSES.with(|lapses| lapses.own = false);
}

/// A lock is being taken out of the keyspace.
pub(super) fn unlinked(grant: &Grant, from: &Unlinked) {
    if LAPSES.with(|lapses| lapses.own) {
        return;
    }
    let key = from.key().bytes().to_vec();
    let last = Last { db: from.db(), key, grant: grant.clone(), at: server::now() };
    LAPSES.with(|lapses| lapses.last = Some(last));
}

/// A key of the selected database has expired: if it was a lock, its lease has lapsed.
pub(crate) fn expired(ctx: &Ctx<'_>, key: Arg<'_>) {
    let db = ctx.db();
    let Some(last) = LAPSES.with(|lapses| lapses.last.take()) else { return };
    // An earlier lock of the same name, whose key was overwritten and then expired, went at another time.
    let same_step = server::now() - last.at <= SAME_STEP;
    if last.db != db || last.key != key.bytes() || !same_step {
        return;
    }
    ctx.log(
        LogLevel::Verbose,
        &format!(
            "lock lapsed: owner \"{}\", fence {}, key \"{}\"",
            last.grant.owner().text().as_ref().escape_ascii(),
            last.grant.fence().get(),
            // Last: the server cuts a line off after 1 kB.
            last.key.escape_ascii(),
        ),
    );
    ctx.notify(c"lock.lapsed", key);
    info::LAPSES.count();
}
