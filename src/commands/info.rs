//! `LOCK.INFO key [FULL]`
//!
//! Answers who holds the lock, or for whom it is reserved, as a map (a flat array in RESP2); null where it is free. `FULL` adds all
//! grants and the queue.

use super::parse;
use crate::error::Error;
use crate::lock::{Held, Now, Room, Value};
use crate::server::{Arg, Args, Argument, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving;
use crate::waiting::WaiterInfo;

pub(crate) struct Info;

impl Command for Info {
    const DEFINITION: Definition = Definition {
        name: c"lock.info",
        summary: c"Tells who holds a lock and, with FULL, who waits for it.",
        complexity: c"O(N) for N grants; with FULL O(N+M) for M waiters.",
        since: c"0.1.0",
        flags: c"readonly",
        acl: &[c"read", c"slow", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { keys: Keys::First, tells: true, change: None },
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
        let now = serving::now();
        let until = lock.deadline();
        let alive = |value| Value::alive(value, until, now.millis()).collect();
        let grants: Vec<Held<'_>> = lock.value().map(alive).unwrap_or_default();
        let more = if full { 2 } else { 0 };
        match (grants.first(), serving::reserved_for(ctx, key)) {
            (Some(oldest), _) => {
                ctx.reply_map(10 + more);
                held(ctx, key, *oldest, now);
                // All holders have to bear each other: the least room counts.
                mode(ctx, grants.iter().map(|held| held.grant.room()).min().unwrap_or(Room::ANY));
            }
            (None, Some(owner)) => {
                ctx.reply_map(3 + more);
                field(ctx, "reserved-for", owner.text().as_ref());
            }
            (None, None) => {
                ctx.reply_null_array();
                return Ok(());
            }
        }
        count(ctx, "holders", grants.len() as i64);
        count(ctx, "waiters", serving::waiters_of(ctx, key) as i64);
        if full {
            ctx.reply_bytes(b"grants");
            ctx.reply_array(grants.len());
            for grant in grants {
                ctx.reply_map(8);
                held(ctx, key, grant, now);
                mode(ctx, grant.grant.room());
            }
            queue(ctx, &serving::queue_of(ctx, key, now));
        }
        Ok(())
    }
}

/// Six fields of a grant.
fn held(ctx: &Ctx<'_>, key: Arg<'_>, Held { grant, deadline }: Held<'_>, now: Now) {
    field(ctx, "owner", grant.owner().text().as_ref());
    count(ctx, "fence", grant.fence().get().cast_signed());
    count(ctx, "holds", grant.holds().into());
    count(ctx, "lease-ms", deadline.left(now.start));
    count(ctx, "held-ms", grant.age(now.millis()));
    count(ctx, "session", serving::is_session_alive(ctx, key, grant.fence()).into());
}

/// Two fields: for how many there is room.
fn mode(ctx: &Ctx<'_>, room: Room) {
    field(ctx, "mode", if room.is_exclusive() { b"exclusive" } else { b"shared" });
    count(ctx, "limit", room.most().unwrap_or(0).into());
}

fn queue(ctx: &Ctx<'_>, waiters: &[WaiterInfo]) {
    ctx.reply_bytes(b"queue");
    ctx.reply_array(waiters.len());
    for waiter in waiters {
        ctx.reply_map(7);
        field(ctx, "owner", waiter.owner.text().as_ref());
        count(ctx, "client-id", waiter.client_id.cast_signed());
        count(ctx, "waited-ms", waiter.waited);
        count(ctx, "timeout-ms", waiter.timeout);
        field(ctx, "waits-by", if waiter.notified { b"notify" } else { b"block" });
        mode(ctx, waiter.room);
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
