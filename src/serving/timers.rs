//! The module's three timers: for work that is due, for answers to waiters, and for checking what replicas have confirmed; and `Host`,
//! through which this work uses the server.
//!
//! The first two timers are separate, so that a handover sets only the timer for answers, of 0 ms. The timer for due work stays set as long
//! as leases only move to later times. (With one timer for due work and answers, a handover took 47,100 instructions of the server instead
//! of 39,600.)
//!
//! Waiters are answered by a timer, not in the step that makes the grant, because the server's `UnblockClient` sends the reply but keeps
//! the client blocked until the event loop is about to sleep. Before then, a `CLIENT UNBLOCK` would make some servers send a second reply,
//! and a timeout would make others drop the first reply. A timer of 0 ms fires after the commands that have already arrived and right
//! before the server sends replies, or a millisecond later if another timer is due first. (If the server has I/O threads, commands that
//! these threads have read run in between. `BlockedReplies::finished` handles this.)

use std::ffi::CStr;
use std::ops::DerefMut;

use super::locks::{TABLE, begin_turn, now, step_on};
use super::{heartbeat, messages, views};
use crate::keyspace::LockKey;
use crate::server::{
    self, AFTER_PANIC, AckEvents, Acks, BlockedClient, Called, Ctx, ServerCell, Timer, TimerTask, TurnEvents,
    listen_to_turns, ticks,
};
use crate::stats;
use rules::lock::{Deadline, Fence, Limits, Micros, Millis, Now};
use rules::waiting::{self, Deferral, Holder, Host, LockId, Message, RequestId, Settled, Table};

struct Tick {
    /// The timer for the due work.
    due_work: Option<SetTimer>,
    /// The timer for answers to waiters, and how many times the server's cron has run since the timer was set.
    outbox: Option<(Timer, u8)>,
    /// Whether waiters are being answered now. Meanwhile, `arm` sets no timer, because a timer that is set while another timer runs fires a
    /// millisecond late, and delays all timers that are set before it fires.
    sending: bool,
    /// The timer that checks what replicas have confirmed, and the listener for their acknowledgements, while somebody waits for replicas.
    replicas: Option<SetTimer>,
    acks: Option<Acks>,
    /// When the first work that has no timer yet is due, in ms by the wall clock. The server's cron will set the timer for this work.
    later: Option<Millis>,
    /// Whether due work is being done now.
    running: bool,
    /// Whether the server tells the module of each turn of its event loop (see `hear_of_turns`).
    hears_of_turns: bool,
}

/// A timer that has been set.
struct SetTimer {
    /// When the timer is to fire, in ms by the wall clock.
    at: Millis,
    /// When the timer is to fire, in ms since boot. The timer itself goes by the wall clock, which can be set back.
    due: Millis,
    timer: Timer,
}

impl SetTimer {
    fn new<A: TimerTask>(delay: Millis, now: Millis) -> Self {
        let timer = Timer::after::<A>(delay);
        Self { at: now.saturating_add(delay), due: server::since_boot().saturating_add(delay), timer }
    }
}

/// A timer that is more than this many ms late is set anew, because the wall clock has probably been set back.
const LATE: Millis = 250;

/// Work that is due later than in this many ms gets no timer yet. The server's cron, which runs at least once a second, sets the timer
/// later. So a handover's timer is often the only timer in the server's tree of timers, which saves 5,000 instructions.
const SOON: Millis = 2_500;

static TICK: ServerCell<Tick> = ServerCell::new(Tick {
    due_work: None,
    outbox: None,
    sending: false,
    replicas: None,
    acks: None,
    later: None,
    running: false,
    hears_of_turns: false,
});

impl Tick {
    /// Whether the timer for due work and the cron (see `later`) are both too late for work that is due at `due`, in ms by the wall clock.
    fn is_too_late(&self, due: Millis) -> bool {
        self.due_work.as_ref().is_none_or(|set| set.at > due) && self.later.is_none_or(|later| later > due)
    }

    /// Listens to replicas' acknowledgements while somebody waits for replicas (`syncs`). If there is something new to confirm, has a timer
    /// ask the replicas.
    #[inline(never)]
    fn follow_replicas(&mut self, syncs: bool) {
        if syncs != self.acks.is_some() {
            self.acks = if syncs { Acks::listen::<Replicas>() } else { None };
        }
        if TABLE.with(|table| table.replication.is_to_ask()) {
            self.poll_replicas(0);
        }
    }

    /// Sets the timer that checks what replicas have confirmed, to fire in `delay` ms, unless it is already set.
    fn poll_replicas(&mut self, delay: Millis) {
        if self.replicas.is_none() {
            self.replicas = Some(SetTimer::new::<Replicas>(delay, server::now() / 1000));
        }
    }
}

/// Sets the timers for the work that is due next, unless earlier timers are already set.
pub(super) fn arm() {
    // If the code of a timer runs now, this code calls `arm` again at its end.
    if TICK.with(|tick| tick.running || tick.sending) {
        return;
    }
    #[cfg(debug_assertions)]
    TABLE.with(|table| table.check_if_small());
    let (answered, next, syncs) =
        TABLE.with(|table| (table.has_answered(), table.next_due(), !table.replication.is_empty()));
    TICK.with(|tick| {
        if syncs || tick.acks.is_some() {
            tick.follow_replicas(syncs);
        }
        if answered && tick.outbox.is_none() {
            tick.outbox = Some((Timer::after::<Outbox>(0), 0));
        }
        let Some(next) = next.filter(|&next| tick.is_too_late(next)) else { return };
        let now = server::now() / 1000;
        if next > now.saturating_add(SOON) {
            tick.later = Some(next);
            return;
        }
        // If the time of the timer for due work has come, the timer is about to fire, so it is not replaced.
        if tick.due_work.as_ref().is_some_and(|set| set.at <= now) {
            return;
        }
        if let Some(late) = tick.due_work.take() {
            late.timer.stop();
        }
        tick.due_work = Some(SetTimer::new::<DueWork>(next.saturating_sub(now).max(0), now));
    });
}

/// The server's cron calls this function. Sets the timer for work that is due soon. After the wall clock was set back, replaces timers that
/// would fire too late.
pub(super) fn on_cron() {
    let (now, wall) = (server::since_boot(), server::now() / 1000);
    TABLE.with(|table| table.paused_until = 0);
    TICK.with(|tick| {
        tick.later = None;
        let is_late = |set: &mut SetTimer| (now - set.due).max(wall - set.at) > LATE;
        if let Some(late) = tick.due_work.take_if(is_late) {
            late.timer.stop();
        }
        let has_outlasted = |(_, turns): &mut (Timer, u8)| {
            *turns += 1;
            *turns > 2
        };
        if let Some((late, _)) = tick.outbox.take_if(has_outlasted) {
            late.stop();
        }
        if tick.hears_of_turns && tick.outbox.is_none() {
            tick.outbox = Some((Timer::after::<Outbox>(0), 0));
        }
        if let Some(late) = tick.replicas.take_if(is_late) {
            late.timer.stop();
        }
        if tick.acks.is_some() {
            // The listener may have missed an acknowledgement, so the timer checks anyway.
            tick.poll_replicas(0);
        }
    });
    arm();
}

/// A client has been told of its grant. From now on, the server reports the end of each turn of its event loop, when the reply has been
/// sent. The next timer for answers ends these reports. It is usually that of the next handover; without one, the server's cron sets it.
pub(super) fn hear_of_turns() {
    if !TICK.with(|tick| std::mem::replace(&mut tick.hears_of_turns, true)) {
        listen_to_turns::<Turns>(true);
    }
}

fn send(ctx: &Ctx<'_>) {
    begin_turn();
    TICK.with(|tick| tick.sending = true);
    waiting::send_due(&mut Server::new(ctx), now);
    TICK.with(|tick| tick.sending = false);
}

struct Outbox;

impl TimerTask for Outbox {
    const NAME: &'static CStr = c"answers";

    fn run(ctx: &Ctx<'_>) {
        let hears_of_turns = TICK.with(|tick| {
            tick.outbox = None;
            std::mem::replace(&mut tick.hears_of_turns, false)
        });
        if hears_of_turns {
            listen_to_turns::<Turns>(false);
        }
        send(ctx);
        // More waiters may have to be answered, or a grant whose message nobody received may have to go to the next waiter.
        arm();
    }

    fn run_again() {
        TICK.with(|tick| {
            tick.sending = false;
            tick.outbox = Some((Timer::after::<Self>(AFTER_PANIC), 0));
        });
    }
}

struct Replicas;

impl AckEvents for Replicas {
    fn acked() {
        TICK.with(|tick| tick.poll_replicas(0));
    }
}

impl TimerTask for Replicas {
    const NAME: &'static CStr = c"replicas";

    fn run(ctx: &Ctx<'_>) {
        TICK.with(|tick| tick.replicas = None);
        begin_turn();
        let again = waiting::take_up_confirmed(&mut Server::new(ctx));
        send(ctx);
        if let Some(delay) = again {
            TICK.with(|tick| tick.poll_replicas(delay));
        }
        arm();
    }

    fn run_again() {
        TICK.with(|tick| {
            (tick.sending, tick.replicas) = (false, None);
            tick.poll_replicas(AFTER_PANIC);
        });
    }
}

struct Turns;

impl TurnEvents for Turns {
    fn slept() {
        TABLE.with(|table| table.turn_sent());
    }
}

struct DueWork;

impl TimerTask for DueWork {
    const NAME: &'static CStr = c"due-work";

    fn run(ctx: &Ctx<'_>) {
        TICK.with(|tick| {
            tick.due_work = None;
            tick.running = true;
        });
        begin_turn();
        let timeouts = waiting::run_due(&mut Server::new(ctx), now());
        stats::TIMEOUTS.add(timeouts);
        TICK.with(|tick| tick.running = false);
        arm();
    }

    fn run_again() {
        let set = SetTimer::new::<Self>(AFTER_PANIC, server::now() / 1000);
        TICK.with(|tick| {
            tick.running = false;
            tick.due_work = Some(set);
        });
    }
}

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

    fn replicas(&mut self) -> waiting::Replicas {
        let (written, replicas) = self.ctx.replicas();
        waiting::Replicas { written, replicas }
    }

    fn ask_replicas(&mut self) -> bool {
        !self.ctx.must_keep_still() && self.ctx.ask_replicas()
    }
}
