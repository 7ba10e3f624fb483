//! The text of a `DEADLOCK` error, which describes a cycle of waits.

use std::fmt::Write;

use crate::lock::Owner;
use crate::server::Ctx;
use crate::waiting::{Cycle, Link};

/// The error is one line for people, so it describes at most `LINKS` links of the cycle, and shows at most `NAME` bytes of each name.
const LINKS: usize = 8;
const NAME: usize = 64;

/// A link of the cycle (one owner waits for another), and the user's rights to the link's lock. A user who may read the lock may know the
/// lock's name. A user who may write to the lock may also know its holders and waiters.
struct Seen<'a> {
    link: &'a Link,
    readable: bool,
    writable: bool,
}

/// Tells the client why its wait would never end. Names only keys that the user may read, and only owners that hold, or wait for, a key
/// that the user may write to.
pub(super) fn send<'a>(ctx: &Ctx<'_>, cycle: &'a Cycle) {
    let mut text = String::from("DEADLOCK this wait would never end: ");
    let see = |link: &'a Link| {
        let key = &link.id.key;
        Seen { link, readable: ctx.may_read(key), writable: ctx.may_write(key) }
    };
    // Each link names an owner that waits, and the owner for which it waits. The error may name the latter owner if the user may write to
    // the lock of this link or of the next link. So `seen` has one link more than the error shows.
    let seen: Vec<Seen<'_>> = cycle.iter().take(LINKS + 1).map(see).collect();
    let Some(first) = seen.first() else { return };
    let mut before = first;
    for (number, this) in seen.iter().take(LINKS).enumerate() {
        // The links form a cycle, so the first link follows the last.
        let next = seen.get(number + 1).unwrap_or(first);
        push_link(ctx, &mut text, &first.link.waits, [before, this, next]);
        before = this;
    }
    if cycle.len() > LINKS {
        _ = write!(text, "and {} more, ", cycle.len() - LINKS);
    }
    text.truncate(text.trim_end_matches(", ").len());
    ctx.reply_error_text(&text);
}

/// Writes the text of link `this`. The client already knows its own owner's name (`asker`). Any other owner is part of two neighbouring
/// links, and may be named if the user may write to the lock of either link.
fn push_link(ctx: &Ctx<'_>, text: &mut String, asker: &Owner<'_>, [before, this, next]: [&Seen<'_>; 3]) {
    let link = this.link;
    let name = |owner: &Owner<'_>, may_know| match may_know || owner == asker {
        true => shown(owner.text().as_ref()),
        false => "somebody".into(),
    };
    let waits = name(&link.waits, this.writable || before.writable && before.link.other == link.waits);
    let other = name(&link.other, this.writable || next.writable && next.link.waits == link.other);
    let lock = match this.readable {
        true => format!("\"{}\"", shown(&link.id.key)),
        false => "a lock".into(),
    };
    let elsewhere = match link.id.db {
        db if db == ctx.db() => String::new(),
        db => format!(" in database {db}"),
    };
    let how = if link.behind { "behind" } else { "held by" };
    _ = write!(text, "{waits} waits for {lock}{elsewhere} {how} {other}");
    // Usually, `link.other` (the holder, or a waiter ahead) is the owner that waits in the next link. If not, `link.other` is a holder: a
    // session keeps its grant alive, and another owner (`next.link.waits`) waits on the connection of this session. So the holder can't go
    // on, either.
    if next.link.waits != link.other {
        _ = write!(text, " on the connection of {}", name(&next.link.waits, next.writable));
    }
    text.push_str(", ");
}

/// Returns a name, cut off after `NAME` bytes, and escaped so that the name can't break the line.
fn shown(name: &[u8]) -> String {
    let more = if name.len() > NAME { "..." } else { "" };
    format!("{}{more}", name.get(..NAME).unwrap_or(name).escape_ascii())
}
