//! Whether anybody listens to what this server replicates: a replica, a backlog for a replica that comes back, an append-only file, or
//! another node of the cluster.
//!
//! Preparing an effect takes about a third of the instructions of an acquire and a release, and the server would throw the effect away if
//! nobody listens. The module API does not tell whether anybody does, so this file finds out. The result "nobody" must be right, since an
//! effect that is not replicated is lost. Somebody begins to listen
//!
//! - with a fork: a first replica, or an append-only file that is turned on, needs the effects after the fork of the child that writes its
//!   first snapshot. A replica without a fork needs a backlog, which exists already.
//! - when a replica is promoted.
//!
//! The server reports both as events before the next command runs (the second through `events`, since a module has one callback for each
//! event). Everything else is looked up now and then, and only to find that nobody listens any more. In a cluster somebody always listens,
//! since hash slots may be moving.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use redis_module::raw;

use super::context::EFFECTS;
use super::guard::guard;
use super::section::Section;
use super::{Ctx, since_boot};

/// How often, in ms, the server's cron checks whether somebody still listens.
const CHECK_EVERY: i64 = 250;

/// When to check next, in ms since boot.
static NEXT_CHECK: AtomicI64 = AtomicI64::new(i64::MAX);

/// Set while it is certain that nobody listens.
static NOBODY: AtomicBool = AtomicBool::new(false);

/// Whether somebody may listen.
fn listens() -> bool {
    !NOBODY.load(Ordering::Relaxed)
}

/// Starts to watch whether anybody listens. If the server lacks the event for it, `listens` always returns `true`.
pub(super) fn watch(ctx: *mut raw::RedisModuleCtx) {
    let fork = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_FORK_CHILD, dataver: 1 };
    // SAFETY: the server gave us the context for the time of loading; the callback does not look at the data.
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
    // This is outside the guard, so that no effect is lost if something panics.
    if NOBODY.swap(false, Ordering::Relaxed) {
        guard(c"audience", check_later);
    }
}

/// # Safety
/// Called by the server.
unsafe extern "C" fn forked(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    begin();
}

/// Called by the server's cron: checks whether somebody listens, if a check is due.
pub(super) fn on_duty(ctx: &Ctx<'_>) {
    if listens() && NEXT_CHECK.load(Ordering::Relaxed) <= since_boot() {
        guard(c"look", || {
            check_later();
            let nobody = !ctx.may_persist_or_replicate() && replicas_or_backlog(ctx) == Some(0);
            NOBODY.store(nobody, Ordering::Relaxed);
        });
    }
}

impl Ctx<'_> {
    /// Whether an effect has to be replicated. If nobody would get it, this counts the running command as a change of the data set, as for
    /// `save` points, and nothing else is to be done.
    pub(crate) fn must_replicate(&self) -> bool {
        let listens = listens();
        if !listens {
            // This sends the request, not the effect, but to nobody. It also counts a change, for which the module API has no other call
            // that is as cheap.
            self.replicate_verbatim();
        }
        listens
    }

    /// Whether effects may be needed: by an append-only file, a child process or a cluster, or on a replica.
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
        // The server writes this field only if the setting is on.
        Section::read(self, c"replication").field(c"min_slaves_good_slaves").is_some()
    }
}

/// The number of replicas, plus one for a backlog; `None` if the server does not tell.
fn replicas_or_backlog(ctx: &Ctx<'_>) -> Option<u64> {
    let replication = Section::read(ctx, c"replication");
    let counts = [c"connected_slaves", c"repl_backlog_active"]
        .map(|field| replication.field(field).and_then(|count| count.parse::<u64>().ok()));
    counts.into_iter().sum()
}
