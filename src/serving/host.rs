//! Implements `Host`, through which the rules of `waiting` use the server between commands.

use std::ffi::CStr;

use super::open_lock::OpenLock;
use super::table::{BUDGET, TABLE, now};
use super::{heartbeat, messages};
use crate::keyspace::LockKey;
use crate::server::{BlockedClient, Called, Ctx, ServerCell, client_exists, ticks};
use rules::lock::{Deadline, Fence, Limits, Micros, Millis, Now, Owner};
use rules::waiting::{
    self, Budget, Deferral, Environment, Host, LockId, Message, Replicas, RequestId, Settled, WaitTable,
};

/// The command that timers run to settle locks: to look at their keys, and serve their waiters. It is a command so that the server checks
/// it like any write: enough replicas, a disk that works, a hash slot that this server serves. The arguments have one of three forms:
///
/// - the request number of a waiter, and all locks of this request
/// - 0, and one lock
/// - -1, and locks of which the owner `LEFT_BY` has given up unclaimed grants. The `LOCK.LEAVE` names only one lock of a request for
///   several locks; these are the other locks
pub(crate) const SETTLE: &CStr = c"lock.settle";

/// The owner of the running `LOCK.LEAVE`, if it gives up a request for several locks.
static LEFT_BY: ServerCell<Option<Owner<'static>>> = ServerCell::new(None);

pub(super) fn left_by() -> Option<Owner<'static>> {
    LEFT_BY.with(Option::take)
}

/// An owner has given up a request for several locks with a `LOCK.LEAVE` that names one of these locks. Runs `LOCK.SETTLE` for the other
/// locks that the request had been granted.
pub(super) fn leave_others(ctx: &Ctx<'_>, owner: &Owner<'_>, ids: &[LockId]) {
    LEFT_BY.with(|left_by| *left_by = Some(owner.borrowed().into_owned()));
    let keys = ids.iter().map(|id| id.key.as_ref());
    let words: Vec<&[u8]> = std::iter::once(b"-1".as_slice()).chain(keys).collect();
    ctx.call_write(SETTLE, &words);
    LEFT_BY.with(|left_by| *left_by = None);
}

/// The time in ms between two checks whether clients are still paused. Each check costs a call to the server.
const WHILE_PAUSED: Millis = 2;

pub(super) struct Server<'a> {
    ctx: &'a Ctx<'a>,
    /// When `used` was first called in this turn of the event loop, in microseconds of the clock `ticks`.
    began: Option<Micros>,
}

impl<'a> Server<'a> {
    pub(super) fn new(ctx: &'a Ctx<'a>) -> Self {
        Self { ctx, began: None }
    }
}

impl Environment for Server<'_> {
    type Client = BlockedClient;

    fn table<R>(&mut self, body: impl FnOnce(&mut WaitTable<BlockedClient>) -> R) -> R {
        TABLE.with(body)
    }

    fn limits(&mut self) -> Limits {
        heartbeat::limits()
    }

    fn is_open(&self, client: u64) -> bool {
        client_exists(client)
    }

    fn budget<R>(&mut self, body: impl FnOnce(&mut Budget) -> R) -> R {
        BUDGET.with(body)
    }
}

impl Host for Server<'_> {
    fn deferral(&mut self, now: Now) -> Deferral {
        if self.ctx.is_replica() {
            return Deferral::Replica;
        }
        if self.ctx.must_keep_still() {
            return Deferral::Until(now.millis().saturating_add(WHILE_PAUSED));
        }
        match heartbeat::replicas_uncounted(self.ctx) {
            0 => Deferral::None,
            left => Deferral::Until(now.millis().saturating_add(left)),
        }
    }

    fn used(&mut self) -> Micros {
        let now = ticks();
        now - *self.began.get_or_insert(now)
    }

    fn settle(&mut self, waiter: Option<RequestId>, ids: &[LockId]) -> Settled {
        let Some(first) = ids.first().filter(|id| self.ctx.select_db(id.db)) else {
            return Settled::Refused;
        };
        let mut digits = itoa::Buffer::new();
        let waiter = digits.format(waiter.map_or(0, |request| request.0.get())).as_bytes();
        let keys = ids.iter().map(|id| id.key.as_ref());
        let words: Vec<&[u8]> = std::iter::once(waiter).chain(keys).collect();
        match self.ctx.call_write(SETTLE, &words) {
            Called::Done => Settled::Done,
            Called::Elsewhere if self.ctx.hash_slot_arrives(&first.key) => Settled::Arriving,
            Called::Elsewhere => Settled::Elsewhere,
            Called::Refused => Settled::Refused,
        }
    }

    fn settle_arriving(&mut self, id: &LockId) {
        if self.ctx.select_db(id.db) {
            let now = now();
            let settle = |lock: &mut OpenLock<'_>| {
                waiting::settle(lock, now);
                Ok(())
            };
            // This step sets no timers, because the timer that runs now sets them at its end (see `tick`).
            self.ctx.with_string(&id.key, |key| _ = OpenLock::step(self.ctx, key, settle, |_| ()));
        }
    }

    fn alive_with(&mut self, id: &LockId, fence: Fence, now: Millis) -> Option<(u32, Deadline)> {
        if !self.ctx.select_db(id.db) {
            return None;
        }
        self.ctx.with_string(&id.key, |key| {
            let lock = LockKey::read(self.ctx, key).ok()?;
            lock.value()?.alive_with(fence, lock.deadline(), now)
        })
    }

    fn unblock(&mut self, client: BlockedClient) {
        client.unblock();
    }

    fn publish(&mut self, message: &Message) -> bool {
        messages::publish(self.ctx, message)
    }

    fn replicas(&mut self) -> Replicas {
        let (written, replicas) = self.ctx.replicas();
        Replicas { written, replicas }
    }

    fn ask_replicas(&mut self) -> bool {
        !self.ctx.must_keep_still() && self.ctx.ask_replicas()
    }
}
