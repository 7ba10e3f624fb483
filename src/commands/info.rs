//! `LOCK.INFO key [FULL]`
//!
//! Replies with a map (a flat array in RESP2) that says who holds the lock, for which waiter the lock is reserved, or how long a grace (a
//! time without new grants) keeps the lock from its waiters. In all other cases, the reply is null. `FULL` adds the first grants and the
//! first waiters.

use super::fields::{self, count, field, mode};
use super::parse::{self, Words};
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::server::{Args, Argument, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving;
use rules::lock::{Datum, FIELDS, Grant, Held, Now, Room};
use rules::waiting::{Holder, LockRef, WaiterInfo};

/// The most grants that `FULL` shows, and the most waiters. The fields `holders` and `waiters` count all of them, and `LOCK.WAITS KEY`
/// shows all waiters.
const SHOWN: usize = 1_000;

pub(crate) struct Info;

impl Command for Info {
    const DEFINITION: Definition = Definition {
        name: c"lock.info",
        summary: c"Shows who holds a lock and, with FULL, who waits for it.",
        complexity: c"O(N) for N grants. FULL shows at most 1000 grants and 1000 waiters.",
        since: c"0.1.0",
        flags: c"readonly",
        acl: &[c"read", c"slow", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { keys: Keys::First, tells: true, change: None },
        arguments: &[Argument::KEY, Argument::flag(c"full", c"FULL")],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let key = parse::required(args, 1, "key")?;
        let mut full = None;
        let mut words = Words::new(args, 2);
        while let Some(word) = words.next() {
            if !parse::is(word, "FULL") {
                return Err(words.error());
            }
            words.set(&mut full, ())?;
        }
        let full = full.is_some();
        let lock = LockKey::read(ctx, key)?;
        let at = LockRef { db: ctx.db(), key: key.bytes() };
        let now = serving::now();
        let (_, holders) = serving::shown(ctx, &lock, now, usize::MAX);
        let grants: Vec<Held<'_>> =
            holders.iter().map(|Holder { grant, deadline }| Held { grant, deadline: *deadline }).collect();
        let may_write = ctx.may_write(key.bytes());
        let waiters = serving::view(|table| table.waiters_of(at));
        let grace = serving::grace(ctx);
        let more = if full { 2 } else { 0 } + if grace > 0 { 1 } else { 0 };
        match (grants.first(), serving::view(|table| table.reserved_for(at))) {
            (Some(oldest), _) => {
                ctx.reply_map(12 + shown().count() + more);
                held(ctx, at, *oldest, may_write, now);
                // A lock may not have more holders than any of its grants allows, so the limit is the least of these numbers.
                mode(ctx, grants.iter().map(|held| held.grant.room()).min().unwrap_or(Room::ANY));
                special(ctx, oldest.grant);
            }
            (None, Some(owner)) => {
                ctx.reply_map(3 + more);
                fields::owner(ctx, "reserved-for", &owner, may_write);
            }
            (None, None) if waiters > 0 && grace > 0 => ctx.reply_map(2 + more),
            (None, None) => {
                ctx.reply_null_array();
                return Ok(());
            }
        }
        if grace > 0 {
            count(ctx, "grace-ms", grace);
        }
        count(ctx, "holders", grants.len() as i64);
        count(ctx, "waiters", waiters as i64);
        if full {
            ctx.reply_bytes(b"grants");
            ctx.reply_array(grants.len().min(SHOWN));
            for grant in grants.into_iter().take(SHOWN) {
                ctx.reply_map(10 + shown().count());
                held(ctx, at, grant, may_write, now);
                mode(ctx, grant.grant.room());
                special(ctx, grant.grant);
            }
            let waiters = serving::view(|table| table.queue_of(at, SHOWN, now));
            queue(ctx, &waiters, may_write);
        }
        Ok(())
    }
}

/// Writes the eight fields that every grant has.
fn held(ctx: &Ctx<'_>, at: LockRef<'_>, Held { grant, deadline }: Held<'_>, may_write: bool, now: Now) {
    let (client, address) =
        serving::view(|table| (table.keeper(at, grant.fence()), table.address(at, grant.fence())));
    fields::owner(ctx, "owner", &grant.owner(), may_write);
    count(ctx, "fence", grant.fence().get().cast_signed());
    count(ctx, "holds", grant.holds().into());
    count(ctx, "lease-ms", deadline.left(now.start));
    count(ctx, "held-ms", grant.age(now.millis()));
    count(ctx, "session", client.is_some().into());
    fields::client(ctx, client, address.as_deref(), may_write);
}

/// Returns the name of each field of `FIELDS` that this command shows, and the function that returns the field's value.
fn shown() -> impl Iterator<Item = (&'static str, fn(&Grant) -> Datum<'_>)> {
    FIELDS.iter().filter_map(|field| Some((field.name, field.shown?)))
}

/// Writes the fields of `shown`. A field that the grant does not have is 0 or empty.
fn special(ctx: &Ctx<'_>, grant: &Grant) {
    for (name, datum) in shown() {
        match datum(grant) {
            Datum::Number(number) => count(ctx, name, number.cast_signed()),
            Datum::Bytes(bytes) => field(ctx, name, bytes),
        }
    }
}

fn queue(ctx: &Ctx<'_>, waiters: &[WaiterInfo], may_write: bool) {
    ctx.reply_bytes(b"queue");
    ctx.reply_array(waiters.len());
    for waiter in waiters {
        ctx.reply_map(fields::WAITER);
        fields::waiter(ctx, waiter, may_write);
    }
}
