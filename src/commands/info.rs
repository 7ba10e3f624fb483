//! `LOCK.INFO key [FULL]`
//!
//! Answers who holds the lock, as a map (a flat array in RESP2); null where it is free. `FULL` adds the queue.

use std::ffi::CStr;
use std::ops::RangeInclusive;

use super::parse;
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::server::{self, Arg, Args, Command, Ctx};
use crate::waiting::{self, WaiterInfo};

pub(crate) struct Info;

impl Command for Info {
    const NAME: &'static CStr = c"lock.info";
    const FLAGS: &'static CStr = c"readonly";
    const ACL: &'static CStr = c"read";
    const ARITY: RangeInclusive<usize> = 2..=3;
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let key = parse::required(args, 1)?;
        let full = match args.get(2).map(Arg::bytes) {
            None => false,
            Some(word) if parse::is(word, "FULL") => true,
            Some(_) => return Err(Error::Syntax),
        };
        let lock = LockKey::read(ctx, key)?;
        let Some(held) = lock.held() else {
            ctx.reply_null_array();
            return Ok(());
        };
        let now = server::now() / 1000;
        let waiters = waiting::waiters_of(ctx, key);
        ctx.reply_map(if full { 8 } else { 7 });
        field(ctx, "owner", held.grant.owner().text().as_ref());
        count(ctx, "fence", held.grant.fence().get().cast_signed());
        count(ctx, "holds", held.grant.holds().into());
        count(ctx, "lease-ms", held.deadline.left(now));
        count(ctx, "held-ms", held.grant.age(now));
        count(ctx, "session", waiting::is_session_alive(ctx, key, held.grant.fence()).into());
        count(ctx, "waiters", waiters as i64);
        if full {
            queue(ctx, &waiting::queue_of(ctx, key));
        }
        Ok(())
    }
}

fn queue(ctx: &Ctx<'_>, waiters: &[WaiterInfo]) {
    ctx.reply_bytes(b"queue");
    ctx.reply_array(waiters.len());
    for waiter in waiters {
        ctx.reply_map(4);
        field(ctx, "owner", waiter.owner.text().as_ref());
        count(ctx, "client-id", waiter.client_id.cast_signed());
        count(ctx, "waited-ms", waiter.waited);
        count(ctx, "timeout-ms", waiter.timeout);
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
