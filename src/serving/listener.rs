//! Listens to the server's events. An event may come in the middle of a change of keys, so the listener changes no key. It notes the event,
//! and leaves all changes of keys to a timer.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::host::Server;
use super::table::{TABLE, now};
use super::{heartbeat, notices, tick};
use crate::config;
use crate::keyspace;
use crate::lock::{Grant, Millis, Value};
use crate::server::{
    Arg, BlockedClient, Ctx, KeyspaceEvents, LogLevel, Unlinked, ValueEvents, listen_to_keys,
};
use crate::waiting::{self, LockRef, WaitTable};

/// The listener for all events of the server.
pub(crate) struct ServerEvents;

/// The value of `lock.max-holders` after the last change of any setting.
static MAX_HOLDERS: AtomicI64 = AtomicI64::new(0);

impl ValueEvents<Value> for ServerEvents {
    fn unlinked(value: &Value, from: &Unlinked) {
        let at = LockRef { db: from.db(), key: from.key().bytes() };
        // The loss of the lock matters if a grant may be restored for a session, because this server was frozen when the lease had to be
        // renewed. It also matters if a waiter or a holder is to be told.
        let matters = |table: &mut WaitTable<BlockedClient>| {
            let overdue = table.overdue_sessions(at, now().millis());
            (!overdue.is_empty() || table.locks.lock(at).is_watched()).then_some(overdue)
        };
        let must_track = || if is_empty() { None } else { TABLE.with(matters) };
        keyspace::unlinked(value, from, must_track);
        // If the key expired, a timer for the end of the lease is already due.
        if !is_empty() && TABLE.with(|table| table.unlinked(at, now().millis())) {
            tick::arm();
        }
    }

    fn sent(ctx: &Ctx<'_>) {
        // If the server accepts the client's value, it reports the event `restored`. The server sends the module such events only after a
        // call of `listen`.
        listen(ctx);
    }

    fn refused() -> LogLevel {
        notices::refusal_level()
    }
}

/// Subscribes to events about changed keys, unless this has already been done. Only these events tell the module that somebody has
/// shortened a lease on which a waiter or a session depends, or that a client's payload has become a key. The events cost time, so the
/// module subscribes only when somebody first waits, a session first begins, or a client first sends a payload.
pub(super) fn listen(ctx: &Ctx<'_>) {
    static LISTENING: AtomicBool = AtomicBool::new(false);
    if !LISTENING.swap(true, Ordering::Relaxed) {
        listen_to_keys::<ServerEvents>(ctx);
    }
}

fn is_empty() -> bool {
    TABLE.with(|table| table.locks.is_empty())
}

impl KeyspaceEvents for ServerEvents {
    fn expired(ctx: &Ctx<'_>, key: Arg<'_>) {
        let Some(lapse) = keyspace::expired(ctx, key) else { return };
        let at = LockRef { db: ctx.db(), key: key.bytes() };
        let outlives = |grant: &Grant| waiting::outlives(&mut Server::new(ctx), at, grant, now());
        if let Some((oldest, count)) = lapse.over(outlives) {
            let (waiters, level) = notices::lapse_notice(at);
            keyspace::publish_lapse(ctx, key, oldest, count, waiters, level);
        }
    }

    fn evicted(ctx: &Ctx<'_>, key: Arg<'_>) {
        keyspace::evicted(ctx, key);
    }

    fn touched(ctx: &Ctx<'_>, key: Arg<'_>) {
        let at = LockRef { db: ctx.db(), key: key.bytes() };
        if !is_empty() && TABLE.with(|table| table.touched(at)) {
            tick::arm();
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
            TABLE.with(|table| table.locks.rules_changed());
            tick::arm();
        }
    }

    fn role_changed(primary: bool) {
        if primary {
            heartbeat::begin();
        } else {
            TABLE.with(WaitTable::demoted);
            tick::arm();
        }
    }

    fn on_cron(ctx: &Ctx<'_>, again: Millis) {
        heartbeat::on_cron(ctx, again);
        tick::on_cron();
    }

    fn disconnected(ctx: &Ctx<'_>, client: u64) {
        let is_lost = || ctx.is_reply_lost(client, ["lock.acquire", "lock.macquire"]);
        if waiting::closed(&mut Server::new(ctx), client, is_lost) {
            tick::arm();
        }
    }

    fn flushed(db: Option<i32>) {
        TABLE.with(|table| table.locks.touched_db(db));
        tick::arm();
    }

    fn swapped(first: i32, second: i32) {
        TABLE.with(|table| table.swapped(first, second));
        tick::arm();
    }
}
