//! Writes lines for operators into the log: about long waits, about lapses of locks with waiters, and about refused payloads of clients. Of
//! each kind, only a few lines in a second get the level notice or warning.

use std::sync::Arc;

use super::locks::{TABLE, now};
use super::messages::{client_name, named};
use super::views::{HolderInfo, Holders, holders_of};
use crate::config;
use crate::server::{Ctx, LogLevel, ServerCell};
use rules::lock::{Millis, Now, Owner};
use rules::waiting::{LockId, LongWaits, WaiterInfo};

static WAIT_LINES: ServerCell<RateLimit> = ServerCell::new(RateLimit::new());
static LAPSE_LINES: ServerCell<RateLimit> = ServerCell::new(RateLimit::new());
static REFUSAL_LINES: ServerCell<RateLimit> = ServerCell::new(RateLimit::new());

/// Returns the log level for a lapse of a lock that has this many waiters. If it has any, the lapse counts for the rate limit.
pub(super) fn lapse_level(waiters: usize) -> LogLevel {
    let may = waiters > 0 && LAPSE_LINES.with(|lapses| lapses.take(now().millis()));
    if may { LogLevel::Notice } else { LogLevel::Verbose }
}

/// Returns the log level for the refused payload of a client, which counts for the rate limit.
pub(super) fn refusal_level() -> LogLevel {
    let may = REFUSAL_LINES.with(|refusals| refusals.take(now().millis()));
    if may { LogLevel::Warning } else { LogLevel::Verbose }
}

/// Logs the waits that have become as long as the setting `lock.log-wait` since the last call, and the number of lines that the rate limits
/// left out.
pub(super) fn write_to_log(ctx: &Ctx<'_>) {
    let now = now();
    if let limit @ 1.. = config::LOG_WAIT.get() {
        long_waits(ctx, limit, now);
    }
    for (rate, what) in [
        (&WAIT_LINES, "long waits"),
        (&LAPSE_LINES, "lapses that somebody waited for"),
        (&REFUSAL_LINES, "refused payloads"),
    ] {
        if let more @ 1.. = rate.with(|rate| rate.unreported(now.millis())) {
            ctx.log(LogLevel::Notice, &format!("{more} more {what} in the last seconds"));
        }
    }
}

fn long_waits(ctx: &Ctx<'_>, limit: i64, now: Now) {
    let most = WAIT_LINES.with(|rate| rate.left(now.millis()));
    let LongWaits { waits, others } = TABLE.with(|table| table.long_waits(limit, most, now));
    for wait in &waits {
        let Some(id) = wait.id() else { continue };
        let holders = holders_of(ctx, id, 1, now);
        ctx.log(LogLevel::Notice, &line(ctx, &wait.waiter, id, &holders, now));
    }
    WAIT_LINES.with(|rate| {
        waits.iter().for_each(|_| _ = rate.take(now.millis()));
        rate.leave_out(others);
    });
}

fn line(ctx: &Ctx<'_>, waiter: &WaiterInfo, id: &LockId, holders: &Holders, now: Now) -> String {
    let named = |owner: &Owner<'_>, label: &[u8], client, address: &Option<Arc<[u8]>>| {
        named(owner.text().as_ref(), label, || client_name(ctx, client, address.as_deref(), false))
    };
    let (client, waited) = (waiter.connection, waiter.waited);
    let who = named(&waiter.owner, &waiter.label, Some(client), &waiter.address);
    let held = match (holders.first.first(), &holders.reserved_for) {
        (Some(HolderInfo { grant, client, address, .. }), _) => {
            let others = match holders.count.saturating_sub(1) {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            let (fence, held) = (grant.fence().get(), grant.age(now.millis()));
            let who = named(&grant.owner(), grant.label(), *client, address);
            format!("held for {held} ms by {who}, fence {fence}{others}")
        }
        (None, Some(owner)) => format!("reserved for owner \"{}\"", owner.text().as_ref().escape_ascii()),
        (None, None) => "free".into(),
    };
    format!(
        "long wait: {who}, client id={client}, for {waited} ms; the lock is {held}, key \"{}\"",
        // The key comes last, because the server cuts a line of the log off after 1 kB.
        id.key.escape_ascii(),
    )
}

/// The most lines of one kind in one second.
const MOST: usize = 10;

/// Limits how many lines of one kind the log gets in a second, and counts the lines that were left out.
#[derive(Debug)]
struct RateLimit {
    /// The present second, since 1970.
    second: Millis,
    /// The number of lines that this second has.
    taken: usize,
    /// The number of lines that were left out in this second.
    left_out: u64,
    /// The number of lines that were left out in earlier seconds, and have not been reported.
    unreported: u64,
}

impl RateLimit {
    const fn new() -> Self {
        Self { second: 0, taken: 0, left_out: 0, unreported: 0 }
    }

    /// Returns how many more lines the log may have in this second.
    fn left(&mut self, now: Millis) -> usize {
        let second = now.div_euclid(1000);
        if second != self.second {
            let unreported = self.unreported + self.left_out;
            *self = Self { second, taken: 0, left_out: 0, unreported };
        }
        MOST - self.taken
    }

    /// Whether the log may have one more line now. If so, the line counts as written, and otherwise as left out.
    fn take(&mut self, now: Millis) -> bool {
        let may = self.left(now) > 0;
        if may {
            self.taken += 1;
        } else {
            self.left_out += 1;
        }
        may
    }

    fn leave_out(&mut self, count: u64) {
        self.left_out += count;
    }

    /// Returns how many lines were left out in earlier seconds. Each line is counted in only one result.
    fn unreported(&mut self, now: Millis) -> u64 {
        self.left(now);
        std::mem::take(&mut self.unreported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_and_what_is_left_out_is_told_once_it_is_over() {
        let mut limit = RateLimit::new();
        let taken = (0..25).filter(|_| limit.take(5_100)).count();
        assert_eq!((taken, limit.left(5_900)), (MOST, 0));
        limit.leave_out(4);
        assert_eq!(limit.unreported(5_999), 0);
        assert!(limit.take(6_000));
        assert_eq!((limit.left(6_000), limit.unreported(6_000), limit.unreported(6_000)), (MOST - 1, 19, 0));
        assert_eq!(limit.unreported(9_000), 0);
    }

    /// Nothing asks for the unreported lines for some seconds.
    #[test]
    fn what_several_seconds_leave_out_adds_up() {
        let mut limit = RateLimit::new();
        for second in 1..=3 {
            (0..MOST + 2).for_each(|_| _ = limit.take(second * 1000));
        }
        assert_eq!(limit.unreported(4_000), 6);
    }

    /// If the clock is set back, another second begins.
    #[test]
    fn a_clock_that_is_set_back_keeps_nothing_back() {
        let mut limit = RateLimit::new();
        (0..MOST + 1).for_each(|_| _ = limit.take(50_000));
        assert!(limit.take(-1));
        assert_eq!(limit.unreported(-1), 1);
    }
}
