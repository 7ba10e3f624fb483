//! `LOCK.INFO key [FULL]`
//!
//! Answers who holds the lock, as a map (a flat array in RESP2); null where it is free. `FULL` adds the queue.

use super::parse;
use crate::error::Error;
use crate::server::{Arg, Args, Argument, Command, Ctx, Definition, KeyUse};
use crate::serving;
use crate::waiting::WaiterInfo;

pub(crate) struct Info;

impl Command for Info {
    const DEFINITION: Definition = Definition {
        name: c"lock.info",
        summary: c"Tells who holds a lock and, with FULL, who waits for it.",
        complexity: c"O(1); with FULL O(N) for N waiters.",
        since: c"0.1.0",
        flags: c"readonly",
        acl: &[c"read", c"slow", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { tells: true, change: None },
        arguments: &[Argument::KEY, Argument::flag(c"full", c"FULL")],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let key = parse::required(args, 1)?;
        let mut full = None;
        for word in args.skip(2).map(Arg::bytes) {
            if !parse::is(word, "FULL") {
                return Err(Error::Syntax);
            }
            parse::set(&mut full, ())?;
        }
        let full = full.is_some();
        let lock = serving::look(ctx, key)?;
        let Some(held) = lock.held() else {
            ctx.reply_null_array();
            return Ok(());
        };
        let now = serving::now();
        let waiters = serving::waiters_of(ctx, key);
        ctx.reply_map(if full { 8 } else { 7 });
        field(ctx, "owner", held.grant.owner().text().as_ref());
        count(ctx, "fence", held.grant.fence().get().cast_signed());
        count(ctx, "holds", held.grant.holds().into());
        count(ctx, "lease-ms", held.deadline.left(now.start));
        count(ctx, "held-ms", held.grant.age(now.millis()));
        count(ctx, "session", serving::is_session_alive(ctx, key, held.grant.fence()).into());
        count(ctx, "waiters", waiters as i64);
        if full {
            queue(ctx, &serving::queue_of(ctx, key, now));
        }
        Ok(())
    }
}

fn queue(ctx: &Ctx<'_>, waiters: &[WaiterInfo]) {
    ctx.reply_bytes(b"queue");
    ctx.reply_array(waiters.len());
    for waiter in waiters {
        ctx.reply_map(5);
        field(ctx, "owner", waiter.owner.text().as_ref());
        count(ctx, "client-id", waiter.client_id.cast_signed());
        count(ctx, "waited-ms", waiter.waited);
        count(ctx, "timeout-ms", waiter.timeout);
        field(ctx, "waits-by", if waiter.notified { b"notify" } else { b"block" });
    }
}

fn field(ctx: &Ctx<'_>, name: &str, value: &[u8]) {
    ctx.reply_bytes(name.as_bytes());
    ctx.reply_bytes(value);
}

fn count(ctx: &Ctx<'_>, name: &str, value: i64) {
    ctx.reply_bytes(name.as_bytes());
    ctx.reply_integer(value);
}
