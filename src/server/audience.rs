//! Finds out whether anybody receives what this server replicates: a replica, a backlog for a replica that comes back, an append-only file,
//! or another node of the cluster.
//!
//! Preparing an effect (a command that carries a change) takes about a third of the instructions of an acquire and a release. If nobody
//! listens, the server drops the effect, so the module prepares no effects while nobody listens. The module API does not say whether
//! anybody listens. The result "nobody" must be right, because an effect that is not replicated is lost. Somebody begins to listen
//!
//! - with a fork: a first replica, or an append-only file that is turned on, gets a snapshot from a forked child, and needs all effects
//!   after the fork. (A replica that needs no snapshot goes on from a backlog, and a backlog already counts as somebody who listens.)
//! - when this server changes its role: from primary to replica, or from replica to primary.
//!
//! The server reports both as events before the next command runs. (`events` receives the change of role, because a module has only one
//! callback for each event.) While somebody listens, the module's callback for the server's cron checks from time to time whether this is
//! still so. In a cluster, somebody always counts as listening, because hash slots may be moving.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI64, Ordering};

use redis_module::raw;

use super::callback::{EFFECTS, NOBODY, guard};
use super::kind::Section;
use super::{Ctx, since_boot};

/// The time in ms between two checks, in the callback for the server's cron, whether somebody still listens.
const CHECK_EVERY: i64 = 250;

/// When the callback for the server's cron checks next whether somebody still listens, in ms since boot.
static NEXT_CHECK: AtomicI64 = AtomicI64::new(i64::MAX);

/// Starts to watch whether anybody listens. If the server lacks the event for forks, somebody always counts as listening.
pub(super) fn watch(ctx: *mut raw::RedisModuleCtx) {
    let fork = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_FORK_CHILD, dataver: 1 };
    // SAFETY: the server gave us the context for the time of loading, and the callback does not look at the data of the event.
    let status = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, fork, Some(forked))) };
    if status == raw::REDISMODULE_OK as c_int {
        check_later();
    }
}

fn check_later() {
    NEXT_CHECK.store(since_boot().saturating_add(CHECK_EVERY), Ordering::Relaxed);
}

/// Notes that somebody may listen from now on.
pub(super) fn begin() {
    // The swap is outside of `guard`, so that effects are replicated from now on even if the code in the guard panics.
    if NOBODY.swap(false, Ordering::Relaxed) {
        guard(c"audience", check_later);
    }
}

/// # Safety
/// Only the server calls this function.
unsafe extern "C" fn forked(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    begin();
}

/// Called by the callback for the server's cron. If a check is due, finds out and notes whether somebody still listens.
pub(super) fn on_cron(ctx: &Ctx<'_>) {
    if !NOBODY.load(Ordering::Relaxed) && NEXT_CHECK.load(Ordering::Relaxed) <= since_boot() {
        guard(c"look", || {
            check_later();
            let nobody = !ctx.may_persist_or_replicate() && replicas_or_backlog(ctx) == Some(0);
            NOBODY.store(nobody, Ordering::Relaxed);
        });
    }
}

impl Ctx<'_> {
    /// Whether an effect may be needed even if no replica is connected: by an append-only file, by whoever gets the snapshot that a child
    /// process writes, or by a cluster. Also true if this server is a replica, or loads a data set.
    fn may_persist_or_replicate(&self) -> bool {
        const MAYBE: u32 = raw::REDISMODULE_CTX_FLAGS_AOF
            | raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD
            | raw::REDISMODULE_CTX_FLAGS_SLAVE
            | raw::REDISMODULE_CTX_FLAGS_CLUSTER
            | EFFECTS;
        self.flags() & MAYBE != 0
    }

    /// Whether the server refuses writes if too few replicas keep up (`min-replicas-to-write`).
    pub(crate) fn needs_replicas(&self) -> bool {
        // The server shows this field only if the setting is on.
        Section::read(self, c"replication").field(c"min_slaves_good_slaves").is_some()
    }
}

/// Returns the number of replicas, plus one if there is a backlog; `None` if the server does not say.
fn replicas_or_backlog(ctx: &Ctx<'_>) -> Option<u64> {
    let replication = Section::read(ctx, c"replication");
    let counts = [c"connected_slaves", c"repl_backlog_active"]
        .map(|field| replication.field(field).and_then(|count| count.parse::<u64>().ok()));
    counts.into_iter().sum()
}
