//! Listens to the server's events. An event may come in the middle of a change of keys, so the listener changes no key. It notes the event,
//! and leaves all changes of keys to a timer.

use std::sync::atomic::{AtomicI64, Ordering};

use super::locks::{TABLE, knows_nothing, now};
use super::{heartbeat, locks, notices, timers};
use crate::config;
use crate::keyspace;
use crate::server::{Arg, Ctx, KeyspaceEvents, LogLevel, Unlinked, ValueEvents};
use rules::lock::{Millis, Value};
use rules::waiting::LockRef;

/// The listener for all events of the server.
pub(crate) struct ServerEvents;

/// The value of `lock.max-holders` after the last change of any setting.
static MAX_HOLDERS: AtomicI64 = AtomicI64::new(0);

/// Whether a client never gets the reply with its grant, because the server closes the connection in the same turn of the event loop in
/// which the module made the reply. `line` is the client's line of `CLIENT LIST`. If the line does not say, or the client has run another
/// command since, the reply counts as sent. `sheds` says whether the server closes the connections of clients that take much memory
/// (`maxmemory-clients`), which it may do after it has sent all replies.
fn is_grant_lost(line: &str, sheds: impl FnOnce() -> bool) -> bool {
    let field = |name: &str| line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name));
    let is_empty = field("obl=") == Some("0") && field("oll=") == Some("0");
    // "c": the server closes the connection because it has sent all replies, for example after `QUIT`.
    let sends_first = || field("flags=").is_none_or(|flags| flags.contains('c')) || sheds();
    matches!(field("cmd="), Some("lock.acquire" | "lock.macquire")) && !(is_empty && sends_first())
}

impl ValueEvents<Value> for ServerEvents {
    fn unlinked(value: &Value, from: &Unlinked) {
        let at = LockRef { db: from.db(), key: from.key().bytes() };
        keyspace::unlinked(value, from, !knows_nothing() && TABLE.with(|table| table.is_watched(at)));
        // If the key expired, a timer for the end of the lease is already due.
        if !knows_nothing() && TABLE.with(|table| table.unlinked(at)) {
            timers::arm();
        }
    }

    fn sent(ctx: &Ctx<'_>) {
        // If the server accepts the client's value, it reports the event `restored`. The server sends the module such events only after a
        // call of `listen`.
        locks::listen(ctx);
    }

    fn refused() -> LogLevel {
        notices::refusal_level()
    }
}

impl KeyspaceEvents for ServerEvents {
    fn expired(ctx: &Ctx<'_>, key: Arg<'_>) {
        let Some((db, oldest, count)) = keyspace::expired(key) else { return };
        let waiters = TABLE.with(|table| table.waiters_of(LockRef { db, key: key.bytes() }));
        let level = notices::lapse_level(waiters);
        ctx.in_db(db, || keyspace::publish_lapse(ctx, key, &oldest, count, waiters, level));
    }

    fn evicted(ctx: &Ctx<'_>, key: Arg<'_>) {
        keyspace::evicted(ctx, key);
    }

    fn touched(db: i32, key: Arg<'_>) {
        keyspace::touched();
        let at = LockRef { db, key: key.bytes() };
        if !knows_nothing() && TABLE.with(|table| table.touched(at)) {
            timers::arm();
        }
    }

    fn restored(ctx: &Ctx<'_>, key: Arg<'_>) {
        keyspace::restored(ctx, key);
    }

    fn loaded(ctx: &Ctx<'_>) {
        keyspace::warn_of_evictions(ctx);
        heartbeat::start();
    }

    fn configured(ctx: &Ctx<'_>) {
        keyspace::warn_of_evictions(ctx);
        let most = config::MAX_HOLDERS.get();
        if MAX_HOLDERS.swap(most, Ordering::Relaxed) != most {
            TABLE.with(|table| table.touched_db(None));
            timers::arm();
        }
    }

    fn role_changed(primary: bool) {
        if primary {
            heartbeat::begin();
        } else {
            TABLE.with(|table| table.demoted());
            timers::arm();
        }
    }

    fn on_cron(ctx: &Ctx<'_>, again: Millis) {
        heartbeat::on_cron(ctx, again);
        timers::on_cron();
    }

    fn disconnected(ctx: &Ctx<'_>, client: u64) {
        let sheds = || ctx.setting(c"maxmemory-clients").is_some_and(|limit| limit != "0");
        let is_lost = || ctx.line_of(client).is_some_and(|line| is_grant_lost(&line, sheds));
        let is_lost = TABLE.with(|table| table.has_sent(client)) && is_lost();
        if TABLE.with(|table| table.closed(client, is_lost)) {
            timers::arm();
        }
    }

    fn flushed(db: Option<i32>) {
        TABLE.with(|table| table.touched_db(db));
        timers::arm();
    }

    fn swapped(first: i32, second: i32) {
        let now = now().millis();
        TABLE.with(|table| table.swapped(first, second, now));
        timers::arm();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_lost_unless_the_server_may_have_sent_it() {
        let is_lost = |cmd, flags, obl, oll, sheds| {
            is_grant_lost(
                &format!("id=7 flags={flags} obl={obl} oll={oll} omem=0 cmd={cmd} user=a\n"),
                || sheds,
            )
        };
        for cmd in ["lock.acquire", "lock.macquire"] {
            assert!(is_lost(cmd, "A", 5, 0, true) && is_lost(cmd, "c", 0, 1, true));
            assert!(is_lost(cmd, "N", 0, 0, false));
            assert!(!is_lost(cmd, "xc", 0, 0, false) && !is_lost(cmd, "N", 0, 0, true));
        }
        assert!(!is_lost("lock.release", "A", 5, 0, false) && !is_grant_lost("", || false));
    }
}
