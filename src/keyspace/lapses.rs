//! Notices when the server expires or evicts a lock's key. When a key expires, the lock's grants lapse: they end because their leases are
//! over. Counts, logs and publishes lapses. Counts evictions, and warns of them in the log.
//!
//! The server reports an expired or evicted key when the value is already gone. But right before the value goes, the server calls the
//! `unlink` callback of the value's type. So this file keeps what it needs of the last unlinked value until the report.

use crate::server::{self, Arg, Ctx, LogLevel, LoopIteration, ServerCell, Unlinked};
use crate::stats;
use rules::lock::{Deadline, Fence, Grant, Micros, Value};

struct Lapses {
    last: Option<Last>,
    /// When an eviction was last logged, in µs since 1970.
    warned: Option<Micros>,
    /// Whether the setting `maxmemory-policy` lets the server evict locks. If so, the log has a warning.
    may_evict: bool,
}

/// The lock that the server unlinked last.
struct Last {
    db: i32,
    key: Vec<u8>,
    count: usize,
    /// The grants that the module may restore after the key has expired, because this server was frozen when it had to renew their leases
    /// for sessions.
    may_outlive: Vec<Grant>,
    /// The oldest of the grants that are not in `may_outlive`. The rest of these grants are only counted, because many locks with many
    /// holders may lapse at once.
    oldest: Option<Grant>,
    at: Micros,
    /// The iteration of the event loop in which the lock was unlinked; `None` if nobody is to be told of the end of a grant, and no grant
    /// may be restored. A report in the same iteration belongs to this lock, even if the process had to wait for a processor for longer
    /// than `REPORTED_WITHIN`.
    iteration: Option<LoopIteration>,
}

/// At most this many µs pass between the unlinking of an expired key and the server's report, unless the process has to wait for a
/// processor. Nothing else happens in between. (If a lock is overwritten by a value that expires within this time, the lock counts as
/// lapsed.)
const REPORTED_WITHIN: Micros = 1_000;

/// The shortest time in µs between two warnings of evictions. Warnings are limited because a server may evict thousands of locks a second.
const WARNING_EVERY: Micros = 10_000_000;

static LAPSES: ServerCell<Lapses> = ServerCell::new(Lapses { last: None, warned: None, may_evict: false });

/// Notes that something other than the module removes a lock's value: the key expires or is evicted, or a command such as `DEL` removes it.
/// `must_track` must return the fences of the grants that the module may restore afterwards, the oldest first, or `None` if there are no
/// such grants, and nobody waits for the lock or listens for its loss.
pub(crate) fn unlinked(value: &Value, from: &Unlinked, must_track: impl FnOnce() -> Option<Vec<Fence>>) {
    let key = from.key().bytes().to_vec();
    let must_track = must_track();
    let iteration = must_track.as_ref().map(|_| LoopIteration::now());
    let fences = must_track.unwrap_or_default();
    let held = |fence: &Fence| Some(value.with_fence(*fence, || Deadline::Never)?.grant.clone());
    let mut others =
        value.all(Deadline::Never).filter(|held| fences.binary_search(&held.grant.fence()).is_err());
    let oldest = others.next().map(|held| held.grant.clone());
    let may_outlive = fences.iter().filter_map(held).collect();
    let (db, at) = (from.db(), server::now());
    let last = Last { db, key, count: value.count(), may_outlive, oldest, at, iteration };
    LAPSES.with(|lapses| lapses.last = Some(last));
}

/// Handles the report that a key has expired. Returns the lapse if the key was a lock.
pub(crate) fn expired(key: Arg<'_>) -> Option<Lapse> {
    take(key).map(Lapse)
}

/// Handles the report that a command has changed a key: no expiry has removed the lock that was unlinked last.
pub(crate) fn touched() {
    LAPSES.with(|lapses| lapses.last = None);
}

/// A lock that the server has deleted because its leases had ended.
pub(crate) struct Lapse(Last);

impl Lapse {
    pub(crate) fn db(&self) -> i32 {
        self.0.db
    }

    /// Returns one of the grants that have lapsed, and their number; `None` if no grant has lapsed. The grant is `oldest`, or else the
    /// oldest lapsed grant in `may_outlive`. A grant for which `outlives` is true has not lapsed, because the module restores it.
    pub(crate) fn over(&self, mut outlives: impl FnMut(&Grant) -> bool) -> Option<(&Grant, usize)> {
        let Last { count, may_outlive, oldest, .. } = &self.0;
        let (mut first, mut outliving) = (oldest.as_ref(), 0);
        for grant in may_outlive {
            match outlives(grant) {
                true => outliving += 1,
                false => first = first.or(Some(grant)),
            }
        }
        Some((first?, count - outliving))
    }
}

/// Logs, publishes and counts that `count` grants of one lock in the selected database have lapsed together. The log names only `oldest`, which is one of these
/// grants.
pub(crate) fn publish_lapse(
    ctx: &Ctx<'_>,
    key: Arg<'_>,
    oldest: &Grant,
    count: usize,
    waiters: usize,
    level: LogLevel,
) {
    ctx.log(level, &shown("lock lapsed: ", oldest, count - 1, waiters, key.bytes()));
    ctx.notify(c"lock.lapsed", key);
    stats::LAPSES.add(count as u64);
}

/// Logs that a grant has lapsed, and how many waiters its lock had.
pub(crate) fn log_lapse(ctx: &Ctx<'_>, key: Arg<'_>, grant: &Grant, waiters: usize, level: LogLevel) {
    ctx.log(level, &shown("lock lapsed: ", grant, 0, waiters, key.bytes()));
}

/// Handles the report that a key has been evicted. If the key was a lock, counts its grants, and warns an operator
/// in the log (at most once in `WARNING_EVERY`), because the owners do not know that they have lost the lock.
pub(crate) fn evicted(ctx: &Ctx<'_>, key: Arg<'_>) {
    let Some(last) = take(key) else { return };
    stats::EVICTIONS.add(last.count as u64);
    let warn = LAPSES.with(|lapses| {
        let due = lapses.warned.is_none_or(|at| last.at - at >= WARNING_EVERY);
        due.then(|| lapses.warned = Some(last.at)).is_some()
    });
    if warn && let Some(grant) = last.oldest.as_ref().or(last.may_outlive.first()) {
        // The advice comes first, because the server cuts a line of the log off after 1 kB.
        let what = "locks need maxmemory-policy noeviction; lock evicted: ";
        ctx.log(LogLevel::Warning, &shown(what, grant, 0, 0, &last.key));
    }
}

/// If the setting `maxmemory-policy` lets the server evict keys, and did not at the previous call, warns in the log. Locks usually have a
/// TTL, so every policy except `noeviction` lets the server evict locks.
pub(crate) fn warn_of_evictions(ctx: &Ctx<'_>) {
    let policy = ctx.maxmemory_policy();
    let may_evict = policy != "noeviction";
    if may_evict && !LAPSES.with(|lapses| lapses.may_evict) {
        let line = format!("locks need maxmemory-policy noeviction: with {policy} the server may evict them");
        ctx.log(LogLevel::Warning, &line);
    }
    LAPSES.with(|lapses| lapses.may_evict = may_evict);
}

/// Takes the lock that was unlinked last, and returns it if it had this key and was unlinked just now. Does not compare databases: if `MOVE`
/// finds an expired key in another database, in a transaction, Valkey 9 reports it as one of the client's own database.
fn take(key: Arg<'_>) -> Option<Last> {
    let last = LAPSES.with(|lapses| lapses.last.take())?;
    // An earlier lock of this name may have been overwritten by a value that has now expired. Then the report is not about that lock.
    let just_now = server::now() - last.at <= REPORTED_WITHIN
        || last.iteration.is_some_and(|iteration| iteration == LoopIteration::now());
    (last.key == key.bytes() && just_now).then_some(last)
}

/// Makes a line for the log. `format!` is not used, because it took longer than all other work when thousands of locks lapsed together.
fn shown(what: &str, grant: &Grant, others: usize, waiters: usize, key: &[u8]) -> String {
    let mut line = String::with_capacity(192);
    line.push_str(what);
    line.push_str("owner \"");
    push_escaped(&mut line, grant.owner().text().as_ref());
    line.push('"');
    if !grant.label().is_empty() {
        line.push_str(" (");
        push_escaped(&mut line, grant.label());
        line.push(')');
    }
    line.push_str(", fence ");
    line.push_str(itoa::Buffer::new().format(grant.fence().get()));
    if others > 0 {
        line.push_str(", others ");
        line.push_str(itoa::Buffer::new().format(others));
    }
    if waiters > 0 {
        line.push_str(", waiters ");
        line.push_str(itoa::Buffer::new().format(waiters));
    }
    // The key comes last, because the server cuts a line of the log off after 1 kB.
    line.push_str(", key \"");
    push_escaped(&mut line, key);
    line.push('"');
    line
}

fn push_escaped(line: &mut String, bytes: &[u8]) {
    let is_plain =
        |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\') || *byte == b' ';
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(is_plain) => line.push_str(text),
        _ => line.extend(bytes.escape_ascii().map(char::from)),
    }
}
