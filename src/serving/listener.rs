//! What the server tells of keys, connections and its own role. The keyspace may be in the middle of a change then: note it,
//! set a timer, and touch nothing.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::host::Server;
use super::state::{STATE, now};
use super::{heartbeat, notices, tick};
use crate::config;
use crate::keyspace;
use crate::lock::{Grant, Value};
use crate::server::{Arg, Blocked, Ctx, KeyspaceEvents, LogLevel, Unlinked, ValueEvents, listen_to_keys};
use crate::waiting::{self, At, State};

/// Listens for all of it.
pub(crate) struct Listener;

/// `lock.max-holders` as it was when settings changed last.
static MAX_HOLDERS: AtomicI64 = AtomicI64::new(0);

impl ValueEvents<Value> for Listener {
    fn unlinked(value: &Value, from: &Unlinked) {
        let at = At { db: from.db(), key: from.key().bytes() };
        // A session may outlive it, or somebody is to hear of it.
        let matters = |state: &mut State<Blocked>| {
            let overdue = state.overdue_sessions(at, now().millis());
            (!overdue.is_empty() || state.is_watched(at)).then_some(overdue)
        };
        let precious = || if is_empty() { None } else { STATE.with(matters) };
        keyspace::unlinked(value, from, precious);
        if !is_empty() {
            rouse(at);
        }
    }

    fn sent(ctx: &Ctx<'_>) {
        // `restored` follows, unless the server refuses the value.
        listen(ctx);
    }

    fn refused() -> LogLevel {
        notices::of_refusal()
    }
}

/// Has the server tell of changed keys from now on. Most servers never need to know: there is no other sign only of a lease that is
/// cut short under a waiter or a session, and of a client's payload that has become a key.
pub(super) fn listen(ctx: &Ctx<'_>) {
    static LISTENING: AtomicBool = AtomicBool::new(false);
    if !LISTENING.swap(true, Ordering::Relaxed) {
        listen_to_keys::<Listener>(ctx);
    }
}

fn is_empty() -> bool {
    STATE.with(|state| state.is_empty())
}

/// Looks at a lock again, soon: something happened to its key.
fn rouse(at: At<'_>) {
    // At a lapse a timer is due already, and stays.
    let now = now().millis();
    if STATE.with(|state| state.look_through(at, now)) {
        tick::arm();
    }
}

impl KeyspaceEvents for Listener {
    fn expired(ctx: &Ctx<'_>, key: Arg<'_>) {
        let Some(lapse) = keyspace::expired(ctx, key) else { return };
        let at = At { db: ctx.db(), key: key.bytes() };
        let outlives = |grant: &Grant| waiting::outlives(&mut Server::new(ctx), at, grant, now());
        if let Some((oldest, count)) = lapse.over(outlives) {
            let (waiters, level) = notices::of_lapse(at);
            keyspace::publish_lapse(ctx, key, oldest, count, waiters, level);
        }
    }

    fn evicted(ctx: &Ctx<'_>, key: Arg<'_>) {
        keyspace::evicted(ctx, key);
    }

    fn touched(ctx: &Ctx<'_>, key: Arg<'_>) {
        let at = At { db: ctx.db(), key: key.bytes() };
        if !is_empty() && STATE.with(|state| state.touched(at)) {
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
            STATE.with(|state| state.rules_changed());
            tick::arm();
        }
    }

    fn role_changed(primary: bool) {
        if primary {
            heartbeat::begin();
            STATE.with(|state| state.stand_up());
        } else {
            STATE.with(|state| state.stand_down());
            tick::arm();
        }
    }

    fn on_duty() {
        heartbeat::on_duty();
        tick::on_duty();
    }

    fn disconnected(client: u64) {
        if STATE.with(|state| state.disconnected(client)) {
            tick::arm();
        }
    }

    fn flushed(db: Option<i32>) {
        STATE.with(|state| state.touched_db(db));
        tick::arm();
    }

    fn swapped(first: i32, second: i32) {
        STATE.with(|state| {
            state.touched_db(Some(first));
            state.touched_db(Some(second));
        });
        tick::arm();
    }
}
