//! Whether anybody listens to what this server replicates: a replica, a backlog for one to come back to, an append-only
//! file, another node of the cluster.
//!
//! Preparing an effect takes about a third of the instructions of an acquire and release; where nobody listens, the
//! server would only throw it away. It does not say so beforehand, hence this. "Nobody" must be right: an effect that is
//! not told is lost. The server starts to listen
//!
//! - with a fork: a first replica, or an append-only file that is turned on, needs what comes after the fork of the
//!   child that writes its first snapshot. A replica without a fork needs a backlog, which is there already.
//! - when a replica is promoted.
//!
//! Both are events, told before the next command runs (the second through `events`: a module has one callback for
//! each). Everything else is looked up, now and then, and only to find that nobody listens any more. In a cluster somebody always does: slots may be on the move.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use super::context::EFFECTS;
use super::guard::guard;
use super::section::Section;
use super::{Ctx, Timer, TimerTask};

/// How often, in ms, to look whether somebody still listens.
const LOOK_AGAIN: i64 = 250;

/// Nobody listens, for certain.
static NOBODY: AtomicBool = AtomicBool::new(false);

/// Whether an effect has to be told. `false` only where nobody would get it.
fn listens() -> bool {
    !NOBODY.load(Ordering::Relaxed)
}

/// Watches whether anybody listens. If the server lacks the event for it, the answer is always yes.
pub(super) fn watch(ctx: *mut raw::RedisModuleCtx) {
    let fork = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_FORK_CHILD, dataver: 1 };
    // SAFETY: the server gave us the context for the time of loading; the callback does not look at the data.
    let status = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, fork, Some(forked))) };
    if status == raw::REDISMODULE_OK as c_int {
        Timer::after::<Look>(LOOK_AGAIN);
    }
}

/// Somebody may listen from now on.
pub(super) fn begin() {
    // Outside the guard: whatever may panic, no effect gets lost.
    if NOBODY.swap(false, Ordering::Relaxed) {
        guard(c"audience", || Timer::after::<Look>(LOOK_AGAIN));
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

struct Look;

impl TimerTask for Look {
    const NAME: &'static CStr = c"look";

    fn run(ctx: &Ctx<'_>) {
        let nobody = !ctx.may_persist_or_replicate() && replicas_or_backlog(ctx) == Some(0);
        NOBODY.store(nobody, Ordering::Relaxed);
        if !nobody {
            Timer::after::<Self>(LOOK_AGAIN);
        }
    }
}

impl Ctx<'_> {
    /// Whether an effect has to be replicated. Where nobody would get it, counts the running command as a change of the
    /// data set, as for `save` points, and that is all there is to do.
    pub(crate) fn must_replicate(&self) -> bool {
        let listens = listens();
        if !listens {
            // What this sends to nobody is the request, not the effect; what it does besides is to count a change, and
            // the module API has nothing else for that which is as cheap.
            self.replicate_verbatim();
        }
        listens
    }

    /// Whether effects may be needed by an append-only file, a child process, a primary of this server or a cluster.
    fn may_persist_or_replicate(&self) -> bool {
        const MAYBE: u32 = raw::REDISMODULE_CTX_FLAGS_AOF
            | raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD
            | raw::REDISMODULE_CTX_FLAGS_SLAVE
            | raw::REDISMODULE_CTX_FLAGS_CLUSTER
            | EFFECTS;
        self.flags() & MAYBE != 0
    }

    /// Whether the server refuses writes where too few replicas keep up (`min-replicas-to-write`).
    pub(crate) fn needs_replicas(&self) -> bool {
        // A field that the server writes only where that is set.
        Section::read(self, c"replication").field(c"min_slaves_good_slaves").is_some()
    }
}

/// How many replicas there are, and backlogs for one to come back to; `None` where the server does not say.
fn replicas_or_backlog(ctx: &Ctx<'_>) -> Option<u64> {
    let replication = Section::read(ctx, c"replication");
    let counts = [c"connected_slaves", c"repl_backlog_active"]
        .map(|field| replication.field(field).and_then(|count| count.parse::<u64>().ok()));
    counts.into_iter().sum()
}
