//! `LOCK.WAITS [KEY key | TOP] [CURSOR cursor] [COUNT count]`
//!
//! For operators: shows the waiters for all locks in all databases, or for one lock, and the holders of each lock. The longest wait comes
//! first. The reply is one page, as for `SCAN`: `[cursor of the next page, [map, ...]]`. The cursor is the request number of the last
//! waiter on the page. With `TOP`, the reply shows the locks with the most waits since the start, and the cursor is the number of locks
//! that earlier pages have shown.

use std::num::NonZeroU64;

use super::fields::{self, WAITER, count, field};
use super::parse::{self, Words};
use crate::error::Error;
use crate::server::{Arg, Args, Argument, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving::{self, HolderInfo, Holders};
use rules::lock::Now;
use rules::waiting::{LockRef, Page, RequestId, WaitInfo};

/// The number of entries on a page if the client gives no `COUNT`.
pub(super) const COUNT: usize = 10;

/// The most entries on a page. This limit bounds the cost, because the command looks up the holders of each waiter's lock.
const MOST: usize = 1_000;

/// The most holders that the reply shows of each lock.
const HOLDERS: usize = 10;

/// What `LOCK.WAITS` shows instead of the waiters for all locks.
enum Of<'a> {
    Lock(Arg<'a>),
    Top,
}

pub(crate) struct Waits<'a> {
    of: Option<Of<'a>>,
    cursor: u64,
    pub(super) count: usize,
}

impl Command for Waits<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.waits",
        summary:
            c"For operators: lists who waits, the longest wait first, and who holds the lock that each waits for.",
        complexity: c"O(log N + M) for N waiters, of which M are shown.",
        since: c"0.1.0",
        flags: c"readonly admin",
        acl: &[c"slow", c"admin", c"dangerous", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { keys: Keys::After(c"KEY"), tells: true, change: None },
        arguments: &[
            Argument::one_of(c"of", &[Argument::KEY.after(c"KEY"), Argument::word(c"top", c"TOP")])
                .optional(),
            Argument::integer(c"cursor").after(c"CURSOR").optional(),
            Argument::integer(c"count").after(c"COUNT").optional(),
        ],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        Waits::parse(args)?.show(ctx);
        Ok(())
    }
}

impl<'a> Waits<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let (mut of, mut cursor, mut count) = (None, None, None);
        let mut words = Words::new(args, 1);
        while let Some(word) = words.next() {
            if parse::is(word, "KEY") {
                let key = words.value()?;
                words.set(&mut of, Of::Lock(key))?;
            } else if parse::is(word, "TOP") {
                words.set(&mut of, Of::Top)?;
            } else if parse::is(word, "CURSOR") {
                words.read(&mut cursor)?;
            } else if parse::is(word, "COUNT") {
                words.read(&mut count)?;
            } else {
                return Err(words.error());
            }
        }
        Ok(Self {
            of,
            cursor: cursor.map_or(Ok(0), parse::cursor)?,
            count: count.map_or(Ok(COUNT), |count| parse::count(count, MOST))?,
        })
    }

    fn show(self, ctx: &Ctx<'_>) {
        let now = serving::now();
        let key = match self.of {
            None => None,
            Some(Of::Lock(key)) => Some(key),
            Some(Of::Top) => return show_top(ctx, self.cursor, self.count, now),
        };
        let after = NonZeroU64::new(self.cursor).map(RequestId);
        let at = key.map(|key: Arg<'_>| LockRef { db: ctx.db(), key: key.bytes() });
        let Page { waits, last } = serving::view(|table| table.page(at, after, self.count, now));
        // The holders are looked up before the reply begins, because the lookup opens keys, and no key is to be opened in the middle of a
        // reply.
        let shown: Vec<_> = waits.into_iter().map(|waits| (holders_of(ctx, &waits, now), waits)).collect();
        begin(ctx, last.map_or(0, |last| last.0.get()), shown.len());
        for (holders, waits) in shown {
            show_waiter(ctx, &waits, &holders, now);
        }
    }
}

/// Writes the cursor of the next page, and the number of entries on this page.
fn begin(ctx: &Ctx<'_>, next: u64, count: usize) {
    ctx.reply_array(2);
    ctx.reply_bytes(itoa::Buffer::new().format(next).as_bytes());
    ctx.reply_array(count);
}

fn show_top(ctx: &Ctx<'_>, cursor: u64, many: usize, now: Now) {
    let after = usize::try_from(cursor).unwrap_or(usize::MAX);
    let (top, more) = serving::view(|table| table.busiest(after, many));
    begin(ctx, if more { cursor.saturating_add(top.len() as u64) } else { 0 }, top.len());
    for (id, busy, waiters) in top {
        ctx.reply_map(6);
        field(ctx, "key", &id.key);
        count(ctx, "db", id.db.into());
        count(ctx, "waits", busy.waits.cast_signed());
        count(ctx, "error", busy.error.cast_signed());
        count(ctx, "waiters", waiters as i64);
        count(ctx, "last-wait-ms", (now.micros.saturating_sub(busy.last) / 1000).max(0));
    }
}

fn holders_of(ctx: &Ctx<'_>, waits: &WaitInfo, now: Now) -> Holders {
    waits.id().map(|id| serving::holders_shown(ctx, id, HOLDERS, now)).unwrap_or_default()
}

fn show_waiter(ctx: &Ctx<'_>, waits: &WaitInfo, holders: &Holders, now: Now) {
    let Some(id) = waits.id() else { return };
    let (several, may_write) = (waits.ids.len() > 1, ctx.may_write(&id.key));
    ctx.reply_map(4 + WAITER + usize::from(several) + usize::from(holders.reserved_for.is_some()));
    field(ctx, "key", &id.key);
    count(ctx, "db", id.db.into());
    if several {
        ctx.reply_bytes(b"keys");
        ctx.reply_array(waits.ids.len());
        waits.ids.iter().for_each(|id| ctx.reply_bytes(&id.key));
    }
    fields::waiter(ctx, &waits.waiter, may_write);
    if let Some(owner) = &holders.reserved_for {
        fields::owner(ctx, "reserved-for", owner, may_write);
    }
    count(ctx, "holders-count", holders.count as i64);
    ctx.reply_bytes(b"holders");
    ctx.reply_array(holders.first.len());
    for HolderInfo { grant, deadline, client, address } in &holders.first {
        ctx.reply_map(7);
        fields::owner(ctx, "owner", &grant.owner(), may_write);
        count(ctx, "fence", grant.fence().get().cast_signed());
        count(ctx, "lease-ms", deadline.left(now.start));
        count(ctx, "held-ms", grant.age(now.millis()));
        fields::client(ctx, *client, address.as_deref(), may_write);
        field(ctx, "label", grant.label());
    }
}
