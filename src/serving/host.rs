//! Implements `Host`, through which the rules of `waiting` use the server between commands.

use std::ffi::CStr;
use std::ops::DerefMut;

use super::locks::{TABLE, now, step_on};
use super::{heartbeat, messages, views};
use crate::keyspace::LockKey;
use crate::server::{BlockedClient, Called, Ctx, ServerCell, ticks};
use rules::lock::{Deadline, Fence, Limits, Micros, Millis, Now};
use rules::waiting::{self, Deferral, Holder, Host, LockId, Message, Replicas, RequestId, Settled, Table};

/// The command that timers run to settle locks: to look at their keys, and serve their waiters. It is a command so that the server checks
/// it like any write: enough replicas, a disk that works, a hash slot that this server serves. Its arguments are the request number of a
/// waiter and all locks of this request, or 0 and one lock.
pub(crate) const SETTLE: &CStr = c"lock.settle";

/// Whether the module runs `SETTLE` now. It refuses this command from clients.
static SETTLING: ServerCell<bool> = ServerCell::new(false);

pub(super) fn is_settling() -> bool {
    SETTLING.with(|settling| *settling)
}

/// Settles a lock, or all locks of a waiter, by a command.
pub(super) fn call_settle(ctx: &Ctx<'_>, waiter: Option<RequestId>, ids: &[LockId]) -> Called {
    let mut digits = itoa::Buffer::new();
    let waiter = digits.format(waiter.map_or(0, |request| request.0.get())).as_bytes();
    let keys = ids.iter().map(|id| id.key.as_ref());
    let words: Vec<&[u8]> = std::iter::once(waiter).chain(keys).collect();
    SETTLING.with(|settling| *settling = true);
    let called = ctx.call_write(SETTLE, &words);
    SETTLING.with(|settling| *settling = false);
    called
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

impl Host for Server<'_> {
    type Client = BlockedClient;

    fn table(&mut self) -> impl DerefMut<Target = Table<BlockedClient>> {
        TABLE.lend()
    }

    fn limits(&mut self) -> Limits {
        heartbeat::limits()
    }

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
        match call_settle(self.ctx, waiter, ids) {
            Called::Done => Settled::Done,
            Called::Elsewhere if self.ctx.hash_slot_arrives(&first.key) => Settled::Arriving,
            Called::Elsewhere => Settled::Elsewhere,
            Called::Refused => Settled::Refused,
        }
    }

    fn settle_arriving(&mut self, id: &LockId) {
        if self.ctx.select_db(id.db) {
            self.ctx.with_string(&id.key, |key| _ = step_on(self.ctx, key, now, waiting::settle));
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

    fn holders(&mut self, id: &LockId, now: Millis, most: usize) -> Vec<Holder> {
        let read = |lock: &LockKey<'_>| waiting::holders(lock.value(), lock.deadline(), now, most);
        views::peek(self.ctx, id, read).unwrap_or_default()
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
