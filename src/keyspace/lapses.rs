//! Finds out which of the keys that the server expires or evicts were locks. Lapses are counted, logged and published; evictions are
//! counted and warned of.
//!
//! The server reports an expired or evicted key when its value is gone already. But right before, it tells the value's type that the value
//! is being taken out, so the last value that was taken out is kept for the report.

use crate::lock::{Deadline, Fence, Grant, Micros, Value};
use crate::server::{self, Arg, Ctx, LogLevel, LoopIteration, ServerCell, Unlinked};
use crate::stats;

struct Lapses {
    last: Option<Last>,
    /// When the log last had a warning of an eviction.
    warned: Option<Micros>,
    /// The server may evict locks, and the log has a warning of that.
    may_evict: bool,
}

/// The lock that was taken out of the keyspace last.
struct Last {
    db: i32,
    key: Vec<u8>,
    /// The number of its holders.
    count: usize,
    /// Its grants that may outlive a lapse.
    may_outlive: Vec<Grant>,
    /// The oldest of the other grants, if there is one. The rest is only counted, since many locks with many holders may lapse at once.
    oldest: Option<Grant>,
    at: Micros,
    /// The iteration of the event loop. It is noted only if somebody depends on the lock, in case the process has to wait for a processor
    /// for longer than `REPORTED_WITHIN`.
    iteration: Option<LoopIteration>,
}

/// Within how many µs the server reports that a value has expired, after it has taken the value out. Nothing happens in between. (So if a
/// lock is overwritten by a value that expires within this time, the lock counts as lapsed.)
const REPORTED_WITHIN: Micros = 1_000;

/// The shortest time in µs between two warnings: a server may evict thousands of locks a second.
const WARNING_EVERY: Micros = 10_000_000;

static LAPSES: ServerCell<Lapses> = ServerCell::new(Lapses { last: None, warned: None, may_evict: false });

/// Notes a lock that the server, not the module, is taking out of the keyspace. `must_track` returns the fences of the grants that may
/// outlive a lapse, the oldest first, or `None` if nobody depends on this lock.
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

/// Reports a key of the selected database that has expired. Returns its lapse if it was a lock.
pub(crate) fn expired(ctx: &Ctx<'_>, key: Arg<'_>) -> Option<Lapse> {
    take(ctx, key).map(Lapse)
}

/// A lock that the server has deleted because its leases were over.
pub(crate) struct Lapse(Last);

impl Lapse {
    /// Counts the grants whose leases are over, except those that outlive the lapse. Returns the oldest of the counted grants, and
    /// their number.
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

/// Reports that `count` grants have lapsed together, of which `oldest` is the oldest.
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

/// Logs that the lease of a grant was over, and how many waited.
pub(crate) fn log_lapse(ctx: &Ctx<'_>, key: Arg<'_>, grant: &Grant, waiters: usize, level: LogLevel) {
    ctx.log(level, &shown("lock lapsed: ", grant, 0, waiters, key.bytes()));
}

/// Reports a key of the selected database that has been evicted. If it was a lock, its owner has lost it without knowing.
pub(crate) fn evicted(ctx: &Ctx<'_>, key: Arg<'_>) {
    let Some(last) = take(ctx, key) else { return };
    stats::EVICTIONS.add(last.count as u64);
    let warn = LAPSES.with(|lapses| {
        let due = lapses.warned.is_none_or(|at| last.at - at >= WARNING_EVERY);
        due.then(|| lapses.warned = Some(last.at)).is_some()
    });
    if warn && let Some(grant) = last.oldest.as_ref().or(last.may_outlive.first()) {
        // The advice comes first, since the server cuts a line off after 1 kB.
        let what = "locks need maxmemory-policy noeviction; lock evicted: ";
        ctx.log(LogLevel::Warning, &shown(what, grant, 0, 0, &last.key));
    }
}

/// Warns if the server is set to evict locks when memory is short. All locks have a TTL, so each policy but `noeviction` may evict them.
pub(crate) fn warn_of_evictions(ctx: &Ctx<'_>) {
    let policy = ctx.maxmemory_policy();
    let may_evict = policy != "noeviction";
    if may_evict && !LAPSES.with(|lapses| lapses.may_evict) {
        let line = format!("locks need maxmemory-policy noeviction: with {policy} the server may evict them");
        ctx.log(LogLevel::Warning, &line);
    }
    LAPSES.with(|lapses| lapses.may_evict = may_evict);
}

/// The last value that was taken out, if it was this key's, and was taken out just now.
fn take(ctx: &Ctx<'_>, key: Arg<'_>) -> Option<Last> {
    let db = ctx.db();
    let last = LAPSES.with(|lapses| lapses.last.take())?;
    // An earlier lock of the same name may have been overwritten by a value that then expired. That lock was taken out at another time.
    let just_now = server::now() - last.at <= REPORTED_WITHIN
        || last.iteration.is_some_and(|iteration| iteration == LoopIteration::now());
    (last.db == db && last.key == key.bytes() && just_now).then_some(last)
}

/// A line for the log. It is put together by hand, since `format!` took longer than all other work when thousands of locks lapsed together.
fn shown(what: &str, grant: &Grant, others: usize, waiters: usize, key: &[u8]) -> String {
    let mut line = String::with_capacity(192);
    line.push_str(what);
    line.push_str("owner \"");
    push_escaped(&mut line, grant.owner().text().as_ref());
    line.push_str("\", fence ");
    line.push_str(itoa::Buffer::new().format(grant.fence().get()));
    if others > 0 {
        line.push_str(", others ");
        line.push_str(itoa::Buffer::new().format(others));
    }
    if waiters > 0 {
        line.push_str(", waiters ");
        line.push_str(itoa::Buffer::new().format(waiters));
    }
    // The key comes last, since the server cuts a line off after 1 kB.
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
