//! How a circle of waits is told.

use std::fmt::Write;

use crate::lock::Owner;
use crate::server::Ctx;
use crate::waiting::{Circle, Link};

/// So much of a circle is told, and of each name in it: an error is one line, for people.
const LINKS: usize = 8;
const NAME: usize = 64;

/// Tells the client why a wait would never end. Keys that the user has no right to are not named.
pub(super) fn send(ctx: &Ctx<'_>, circle: &Circle) {
    let mut text = String::from("DEADLOCK this wait would never end: ");
    for (number, link) in circle.iter().take(LINKS).enumerate() {
        // The last leads to the first.
        let next = circle.get(number + 1).or(circle.first());
        push_link(ctx, &mut text, link, next);
    }
    if circle.len() > LINKS {
        _ = write!(text, "and {} more, ", circle.len() - LINKS);
    }
    text.truncate(text.trim_end_matches(", ").len());
    ctx.reply_error_text(&text);
}

fn push_link(ctx: &Ctx<'_>, text: &mut String, link: &Link, next: Option<&Link>) {
    let (waits, other) = (owner(&link.waits), owner(&link.other));
    let lock = match ctx.may_read(&link.place.key) {
        true => format!("\"{}\"", shown(&link.place.key)),
        false => "a lock".into(),
    };
    let elsewhere = match link.place.db {
        db if db == ctx.db() => String::new(),
        db => format!(" in database {db}"),
    };
    let how = if link.behind { "behind" } else { "held by" };
    _ = write!(text, "{waits} waits for {lock}{elsewhere} {how} {other}");
    // Where its connection waits, which keeps the grant alive, under another name.
    if let Some(next) = next.filter(|next| next.waits != link.other) {
        _ = write!(text, " on the connection of {}", owner(&next.waits));
    }
    text.push_str(", ");
}

fn owner(owner: &Owner<'_>) -> String {
    shown(owner.text().as_ref())
}

/// A name, or its beginning, in characters that can't break the line.
fn shown(name: &[u8]) -> String {
    let more = if name.len() > NAME { "..." } else { "" };
    format!("{}{more}", name.get(..NAME).unwrap_or(name).escape_ascii())
}
