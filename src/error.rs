//! The errors that commands reply with.

use std::fmt::Write;

use crate::server::{self, Arg, Ctx, ErrorReply, WrongType};
use rules::lock::{NotHeld, Owner, ReentryError};
use rules::waiting::{Cycle, Link, Refusal};

/// An error is one line for people. So it shows at most `SHOWN` bytes of a word or name that a client has sent, and at most `LINKS` links
/// (one owner waits for another) of a cycle of waits.
const SHOWN: usize = 64;
const LINKS: usize = 8;

/// Why a command failed. A command that fails has not done what the client asked, except with `SYNC` if too few replicas confirmed the
/// change.
#[derive(Debug)]
pub(crate) enum Error {
    /// The rules of `waiting` refused the command.
    Refused(Refusal),
    /// This word is an unknown option, an option given twice, an option that excludes another, or an option without its value.
    Syntax(Box<str>),
    /// The command ends before this argument.
    Missing(&'static str),
    /// The value of an option is not an integer, or is greater than the option could ever allow.
    NotAnInteger(Box<Range>),
    /// The value of an option is below 1.
    NotPositive(Box<Range>),
    /// The value of an option is outside the range that a setting or the command allows.
    OutOfRange(Box<Range>),
    /// The lease is zero, negative or longer than `LONGEST_LEASE`.
    InvalidExpire {
        command: &'static str,
    },
    /// The lease of a session, in ms, is below `lock.min-session-lease`.
    SessionTooShort {
        min: i64,
    },
    OwnerLength,
    LabelLength,
    /// The number of keys is not a positive integer.
    NumKeys,
    /// There are fewer keys than `numkeys` says.
    TooFewKeys,
    TooManyKeys {
        max: usize,
    },
    KeyTwice,
    /// The cursor is not a number.
    InvalidCursor,
    WrongType,
    /// The argument of `BLOCK` is not an integer, or is out of range.
    TimeoutNotAnInteger,
    TimeoutNegative,
    /// A client sent a command that only a primary, an append-only file or the module itself may send.
    NotAClientCommand,
    ChannelLength,
    /// The user has no right to the channel of `NOTIFY`.
    ChannelDenied,
    /// Too few replicas have confirmed a grant with `SYNC` in time.
    GrantUnconfirmed,
    /// Too few replicas have confirmed an extension with `SYNC` in time.
    ExtensionUnconfirmed,
    /// A script used `SYNC`, but no later reply can be sent to a script.
    SyncInScript,
    SyncInTransaction,
    SyncOnReplica,
    /// A script used `NOTIFY`, but has no connection to which a place (a position in the queue) could belong.
    NotifyInScript,
    /// A client used `NOTIFY` on a writable replica, but a replica hands no lock over.
    NotifyOnReplica,
    /// A script used `SESSION`, but has no connection that could keep the grant alive.
    SessionInScript,
    /// A client used `SESSION` on a writable replica, but a replica ends no grant by itself.
    SessionOnReplica,
    /// Another module ran the command from a keyspace event, while this module had locks open for a command or a timer.
    Nested,
    /// Another module changed keys during this command, so the state of the command's locks is not certain.
    Disturbed,
}

/// The numbers that an option takes: from 1 to `max`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) option: &'static str,
    pub(crate) max: i64,
    /// What the error says after `max`: the unit, and the setting or option that sets the limit.
    pub(crate) note: &'static str,
}

impl Error {
    /// Returns the error for an argument that a command does not take at its place.
    #[cold]
    #[inline(never)]
    pub(crate) fn syntax(arg: Option<Arg<'_>>) -> Self {
        Self::Syntax(shown(arg.map(Arg::bytes).unwrap_or_default()).into())
    }
}

impl ErrorReply for Error {
    fn send(&self, ctx: &Ctx<'_>) {
        let text: &str = match self {
            Self::Syntax(word) => &format!("ERR syntax error at '{word}'"),
            Self::Missing(what) => &format!("ERR syntax error, the {what} is missing"),
            Self::NotAnInteger(range) => {
                &format!("ERR value is not an integer or out of range: {}", range.text())
            }
            Self::NotPositive(range) => {
                &format!("ERR value is out of range, must be positive: {}", range.text())
            }
            Self::OutOfRange(range) => &format!("ERR value is out of range, {}", range.text()),
            Self::InvalidExpire { command } => &format!("ERR invalid expire time in '{command}' command"),
            Self::SessionTooShort { min } => &format!(
                "ERR value is out of range, the lease of a SESSION must be at least {min} ms (lock.min-session-lease)"
            ),
            Self::OwnerLength => "ERR owner must be 1 to 128 bytes long",
            Self::LabelLength => "ERR label must be at most 128 bytes long",
            Self::NumKeys => "ERR numkeys should be greater than 0",
            Self::TooFewKeys => "ERR Number of keys can't be greater than number of args",
            Self::TooManyKeys { max } => &format!("ERR at most {max} keys are allowed (lock.max-keys)"),
            Self::KeyTwice => "ERR a key is named twice",
            Self::InvalidCursor => "ERR invalid cursor",
            Self::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Self::TimeoutNotAnInteger => "ERR timeout is not an integer or out of range",
            Self::TimeoutNegative => "ERR timeout is negative",
            Self::NotAClientCommand => "ERR this command is the module's own and not for clients",
            Self::ChannelLength => "ERR channel must be 1 to 512 bytes long",
            Self::ChannelDenied => "NOPERM No permissions to access a channel",
            Self::GrantUnconfirmed => {
                "NOREPLICAS too few replicas confirmed in time: what this command added was taken back"
            }
            Self::ExtensionUnconfirmed => "NOREPLICAS too few replicas confirmed the extension in time",
            Self::SyncInScript => "ERR SYNC is not allowed in scripts",
            Self::SyncInTransaction => "ERR SYNC is not allowed in transactions",
            Self::SyncOnReplica => "ERR SYNC is not allowed on replicas",
            Self::NotifyInScript => "ERR NOTIFY is not allowed in scripts",
            Self::NotifyOnReplica => "ERR NOTIFY is not allowed on replicas",
            Self::SessionInScript => "ERR SESSION is not allowed in scripts",
            Self::SessionOnReplica => "ERR SESSION is not allowed on replicas",
            Self::Nested => "ERR not in the midst of another command on locks",
            Self::Disturbed => "ERR not done: another module changed keys in the midst of this command",
            Self::Refused(Refusal::NotHeld(why, key)) => {
                let lock = key.as_ref().map_or("it".into(), |key| format!("'{}'", shown(key)));
                &format!("NOTHELD the lock is not held by this owner: {lock} {}", not_held(*why))
            }
            Self::Refused(Refusal::NoReentry(why)) => match why {
                ReentryError::OtherSlot => "ERR the grant of this owner can't have that slot",
                ReentryError::TooManyHolds => "ERR the lock is held too often: holds would overflow",
                ReentryError::SlotAboveLimit { slot, limit } => &format!(
                    "ERR this owner has permit number {}, above the LIMIT {limit} that it asks for",
                    slot.get()
                ),
            },
            Self::Refused(Refusal::NoMoreFences) => {
                "ERR no more fences: the last one given is the greatest there is"
            }
            Self::Refused(Refusal::MaxWaiters) => {
                "MAXWAITERS the queue of this lock is full (lock.max-waiters)"
            }
            Self::Refused(Refusal::MaxPlaces) => {
                "MAXPLACES too many places and sessions hang on this connection (lock.max-places)"
            }
            Self::Refused(Refusal::Deadlock) => {
                "DEADLOCK another owner waits already to upgrade its grant of this lock"
            }
            Self::Refused(Refusal::Cycle(cycle)) => &cycle_text(ctx, cycle),
            Self::Refused(Refusal::Grace(left)) => &format!("GRACE new grants resume in {left} ms"),
            Self::Refused(Refusal::GraceOfLeases(left)) => {
                &format!("GRACE leases can be extended again in {left} ms")
            }
        };
        ctx.reply_error_text(text);
    }
}

impl Range {
    fn text(&self) -> String {
        let Self { option, max, note } = self;
        format!("{option} must be between 1 and {max}{note}")
    }
}

fn not_held(why: NotHeld) -> &'static str {
    match why {
        NotHeld::Free => "is free",
        NotHeld::OtherOwner => "is held by another owner",
        NotHeld::OtherFence => "is held with another fence",
        NotHeld::TooOld => "has been held up to its maximum age",
        NotHeld::Unconfirmed => "was lost before replicas confirmed the extension",
    }
}

/// Returns a word or a name, cut off after `SHOWN` bytes, and escaped so that it can't break the line.
fn shown(name: &[u8]) -> String {
    let more = if name.len() > SHOWN { "..." } else { "" };
    format!("{}{more}", name.get(..SHOWN).unwrap_or(name).escape_ascii())
}

/// A link of the cycle (one owner waits for another), and the user's rights to the link's lock. A user who may read the lock may know the
/// lock's name. A user who may write to the lock may also know its holders and waiters.
struct Seen<'a> {
    link: &'a Link,
    readable: bool,
    writable: bool,
}

/// Says why a wait would never end. Names only keys that the user may read, and only owners that hold, or wait for, a key
/// that the user may write to.
fn cycle_text<'a>(ctx: &Ctx<'_>, cycle: &'a Cycle) -> String {
    let mut text = String::from("DEADLOCK this wait would never end: ");
    let see = |link: &'a Link| {
        let key = &link.id.key;
        Seen { link, readable: ctx.may_read(key), writable: ctx.may_write(key) }
    };
    // Each link names an owner that waits, and the owner for which it waits. The error may name the latter owner if the user may write to
    // the lock of this link or of the next link. So `seen` has one link more than the error shows.
    let seen: Vec<Seen<'_>> = cycle.iter().take(LINKS + 1).map(see).collect();
    let Some(first) = seen.first() else { return text };
    let mut before = first;
    for (number, this) in seen.iter().take(LINKS).enumerate() {
        // The links form a cycle, so the first link follows the last.
        let next = seen.get(number + 1).unwrap_or(first);
        push_link(ctx, &mut text, &first.link.waiter, [before, this, next]);
        before = this;
    }
    if cycle.len() > LINKS {
        _ = write!(text, "and {} more, ", cycle.len() - LINKS);
    }
    text.truncate(text.trim_end_matches(", ").len());
    text
}

/// Writes the text of link `this`. The client already knows its own owner's name (`asker`). Any other owner is part of two neighbouring
/// links, and may be named if the user may write to the lock of either link.
fn push_link(ctx: &Ctx<'_>, text: &mut String, asker: &Owner<'_>, [before, this, next]: [&Seen<'_>; 3]) {
    let link = this.link;
    let name = |owner: &Owner<'_>, may_know| match may_know || owner == asker {
        true => shown(owner.text().as_ref()),
        false => "somebody".into(),
    };
    let waits = name(&link.waiter, this.writable || before.writable && before.link.other == link.waiter);
    let other = name(&link.other, this.writable || next.writable && next.link.waiter == link.other);
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
    // session keeps its grant alive, and another owner (`next.link.waiter`) waits on the connection of this session. So the holder can't go
    // on, either.
    if next.link.waiter != link.other {
        _ = write!(text, " on the connection of {}", name(&next.link.waiter, next.writable));
    }
    text.push_str(", ");
}

impl From<WrongType> for Error {
    fn from(_: WrongType) -> Self {
        Self::WrongType
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            // A command also gets no fence if another module changes keys in the middle of the command. Then `NoMoreFences` does not mean
            // that the fences are used up.
            Refusal::NoMoreFences if server::is_disturbed() => Self::Disturbed,
            refusal => Self::Refused(refusal),
        }
    }
}
