//! Writes lines for operators into the log: about long waits, about lapses of locks with waiters, and about refused payloads of clients. Of
//! each kind, only a few lines in a second get the level notice or warning.

use std::sync::Arc;

use super::holders::{HolderInfo, Holders, holders_of};
use super::messages::{client_name, named};
use super::table::{TABLE, now};
use crate::config;
use crate::server::{Ctx, LogLevel, ServerCell};
use rules::lock::{Now, Owner};
use rules::waiting::{LockId, LongWaits, RateLimit, WaiterInfo};

static WAIT_LINES: ServerCell<RateLimit> = ServerCell::new(RateLimit::new());
static LAPSE_LINES: ServerCell<RateLimit> = ServerCell::new(RateLimit::new());
static REFUSAL_LINES: ServerCell<RateLimit> = ServerCell::new(RateLimit::new());

/// Returns the log level for a lapse of a lock with so many waiters. If there are any, the lapse counts for the rate limit.
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
    let (client, waited) = (waiter.client_id, waiter.waited);
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
