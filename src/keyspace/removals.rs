//! Notices when the server expires or evicts a lock's key. When a key expires, the lock's grants lapse: they end because their leases are
//! over. Counts, logs and publishes lapses. Counts evictions, and warns of them in the log. (Of several grants in one key, `waiting::step`
//! notices those that lapse before the key expires.)
//!
//! The server reports an expired or evicted key when the value is already gone. But right before the value goes, the server calls the
//! `unlink` callback of the value's type. So this file keeps what it needs of the last unlinked value until the report.

use crate::server::{self, Arg, Ctx, LogLevel, LoopIteration, ServerCell, Unlinked};
use crate::stats;
use rules::lock::{Deadline, Grant, Micros, Value};

struct Removals {
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
    /// The oldest of the grants. The rest are only counted, because many locks with many holders may lapse at once.
    oldest: Option<Grant>,
    at: Micros,
    /// The iteration of the event loop in which the lock was unlinked; `None` if nobody is to be told of the end of a grant. A report in the
    /// same iteration belongs to this lock, even if the process had to wait for a processor for longer than `REPORTED_WITHIN`.
    iteration: Option<LoopIteration>,
}

/// At most this many µs pass between the unlinking of an expired key and the server's report, unless the process has to wait for a
/// processor. Nothing else happens in between. (If a lock is overwritten by a value that expires within this time, the lock counts as
/// lapsed.)
const REPORTED_WITHIN: Micros = 1_000;

/// The shortest time in µs between two warnings of evictions. Warnings are limited because a server may evict thousands of locks a second.
const WARNING_EVERY: Micros = 10_000_000;

static REMOVALS: ServerCell<Removals> =
    ServerCell::new(Removals { last: None, warned: None, may_evict: false });

/// Notes that something other than the module removes a lock's value: the key expires or is evicted, or a command such as `DEL` removes it.
/// `is_watched`: somebody waits for the lock or listens for its loss.
pub(crate) fn unlinked(value: &Value, from: &Unlinked, is_watched: bool) {
    let (db, key, at) = (from.db(), from.key().bytes().to_vec(), server::now());
    let oldest = value.all(Deadline::Never).next().map(|held| held.grant.clone());
    let iteration = is_watched.then(LoopIteration::now);
    let last = Last { db, key, count: value.count(), oldest, at, iteration };
    REMOVALS.with(|removals| removals.last = Some(last));
}

/// Handles the report that a key has expired. If the key was a lock, returns its database, its oldest grant, and the number of its grants.
pub(crate) fn expired(key: Arg<'_>) -> Option<(i32, Grant, usize)> {
    let Last { db, count, oldest, .. } = take(key)?;
    Some((db, oldest?, count))
}

/// Handles the report that a command has changed a key: no expiry has removed the lock that was unlinked last.
pub(crate) fn touched() {
    REMOVALS.with(|removals| removals.last = None);
}

/// Logs, publishes and counts that `count` grants of one lock in the selected database have lapsed together. The log names only `oldest`,
/// which is one of these grants.
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

/// Handles the report that a key has been evicted. If the key was a lock, counts its grants, and warns an operator in the log (at most once
/// in `WARNING_EVERY`), because the owners do not know that they have lost the lock.
pub(crate) fn evicted(ctx: &Ctx<'_>, key: Arg<'_>) {
    let Some(last) = take(key) else { return };
    stats::EVICTIONS.add(last.count as u64);
    let warn = REMOVALS.with(|removals| {
        let due = removals.warned.is_none_or(|at| last.at - at >= WARNING_EVERY);
        due.then(|| removals.warned = Some(last.at)).is_some()
    });
    if warn && let Some(grant) = &last.oldest {
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
    if may_evict && !REMOVALS.with(|removals| removals.may_evict) {
        let line = format!("locks need maxmemory-policy noeviction: with {policy} the server may evict them");
        ctx.log(LogLevel::Warning, &line);
    }
    REMOVALS.with(|removals| removals.may_evict = may_evict);
}

/// Takes the lock that was unlinked last, and returns it if it had this key and was unlinked just now. Does not compare databases: if `MOVE`
/// finds an expired key in another database, in a transaction, Valkey 9 reports it as one of the client's own database.
fn take(key: Arg<'_>) -> Option<Last> {
    let last = REMOVALS.with(|removals| removals.last.take())?;
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
