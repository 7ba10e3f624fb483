//! The errors that commands reply with.

mod cycle;

use crate::keyspace::Malformed;
use crate::lock::ReentryError;
use crate::server::{self, Ctx, ErrorReply, WrongType};
use crate::waiting::Refusal;

/// Why a command failed. A command that fails has not done what the client asked, except with `SYNC` if too few replicas confirmed the
/// change.
#[derive(Debug)]
pub(crate) enum Error {
    /// The rules of `waiting` refused the command.
    Refused(Refusal),
    /// The command has an unknown option, an option twice, two options that exclude each other, or an option without its value.
    Syntax,
    /// An argument is not an integer, or is out of range.
    NotAnInteger,
    /// A fence, limit, slot, age or another number is below 1.
    NotPositive,
    /// The lease is zero, negative or longer than `LONGEST_LEASE`.
    InvalidExpire {
        command: &'static str,
    },
    /// The lease in ms is above `lock.max-lease`.
    LeaseTooLong {
        max: i64,
    },
    /// The lease of a session, in ms, is below `lock.min-session-lease`.
    SessionTooShort {
        min: i64,
    },
    /// `LIMIT` is above `lock.max-holders`.
    LimitTooGreat {
        max: u32,
    },
    /// `SLOT` is above `LIMIT`.
    SlotTooGreat {
        max: u32,
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
    /// `COUNT` is below 1, or above the most entries of a page.
    CountOutOfRange {
        max: usize,
    },
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

impl ErrorReply for Error {
    fn send(&self, ctx: &Ctx<'_>) {
        ctx.reply_error(match self {
            Self::Syntax => c"ERR syntax error",
            Self::NotAnInteger => c"ERR value is not an integer or out of range",
            Self::NotPositive => c"ERR value is out of range, must be positive",
            Self::OwnerLength => c"ERR owner must be 1 to 128 bytes long",
            Self::LabelLength => c"ERR label must be at most 128 bytes long",
            Self::NumKeys => c"ERR numkeys should be greater than 0",
            Self::TooFewKeys => c"ERR Number of keys can't be greater than number of args",
            Self::KeyTwice => c"ERR a key is named twice",
            Self::InvalidCursor => c"ERR invalid cursor",
            Self::Refused(Refusal::NotHeld) => c"NOTHELD the lock is not held by this owner",
            Self::WrongType => c"WRONGTYPE Operation against a key holding the wrong kind of value",
            Self::Refused(Refusal::NoReentry(ReentryError::OtherSlot)) => c"ERR the grant of this owner can't have that slot",
            Self::Refused(Refusal::NoReentry(ReentryError::TooManyHolds)) => c"ERR the lock is held too often: holds would overflow",
            Self::Refused(Refusal::MaxWaiters) => c"MAXWAITERS the queue of this lock is full (lock.max-waiters)",
            Self::Refused(Refusal::Deadlock) => c"DEADLOCK another owner waits already to upgrade its grant of this lock",
            Self::TimeoutNotAnInteger => c"ERR timeout is not an integer or out of range",
            Self::TimeoutNegative => c"ERR timeout is negative",
            Self::Refused(Refusal::NoMoreFences) => c"ERR no more fences: the last one given is the greatest there is",
            Self::ChannelLength => c"ERR channel must be 1 to 512 bytes long",
            Self::ChannelDenied => c"NOPERM No permissions to access a channel",
            Self::Refused(Refusal::MaxPlaces) => c"MAXPLACES too many places and sessions hang on this connection (lock.max-places)",
            Self::GrantUnconfirmed => {
                c"NOREPLICAS too few replicas confirmed in time: what this command added was taken back"
            }
            Self::ExtensionUnconfirmed => c"NOREPLICAS too few replicas confirmed the extension in time",
            Self::SyncInScript => c"ERR SYNC is not allowed in scripts",
            Self::SyncInTransaction => c"ERR SYNC is not allowed in transactions",
            Self::SyncOnReplica => c"ERR SYNC is not allowed on replicas",
            Self::NotifyInScript => c"ERR NOTIFY is not allowed in scripts",
            Self::NotifyOnReplica => c"ERR NOTIFY is not allowed on replicas",
            Self::SessionInScript => c"ERR SESSION is not allowed in scripts",
            Self::SessionOnReplica => c"ERR SESSION is not allowed on replicas",
            Self::Nested => c"ERR not in the midst of another command on locks",
            Self::Disturbed => c"ERR not done: another module changed keys in the midst of this command",
            Self::NotAClientCommand => c"ERR this command is the module's own and not for clients",
            Self::Refused(Refusal::Grace(left)) => {
                return ctx.reply_error_text(&format!("GRACE new grants resume in {left} ms"));
            }
            Self::Refused(Refusal::GraceOfLeases(left)) => {
                return ctx.reply_error_text(&format!("GRACE leases can be extended again in {left} ms"));
            }
            Self::InvalidExpire { command } => {
                return ctx.reply_error_text(&format!("ERR invalid expire time in '{command}' command"));
            }
            Self::Refused(Refusal::NoReentry(ReentryError::SlotAboveLimit { slot, limit })) => {
                let slot = slot.get();
                return ctx.reply_error_text(&format!(
                    "ERR this owner has permit number {slot}, above the LIMIT {limit} that it asks for"
                ));
            }
            Self::Refused(Refusal::Cycle(cycle)) => return cycle::send(ctx, cycle),
            Self::LimitTooGreat { max } => {
                return ctx.reply_error_text(&format!(
                    "ERR value is out of range, LIMIT must be between 1 and {max} (lock.max-holders)"
                ));
            }
            Self::SlotTooGreat { max } => {
                return ctx.reply_error_text(&format!(
                    "ERR value is out of range, SLOT must be between 1 and {max} (LIMIT)"
                ));
            }
            Self::CountOutOfRange { max } => {
                return ctx.reply_error_text(&format!(
                    "ERR value is out of range, COUNT must be between 1 and {max}"
                ));
            }
            Self::TooManyKeys { max } => {
                return ctx.reply_error_text(&format!("ERR at most {max} keys are allowed (lock.max-keys)"));
            }
            Self::SessionTooShort { min } => {
                return ctx.reply_error_text(&format!(
                    "ERR value is out of range, the lease of a SESSION must be at least {min} ms (lock.min-session-lease)"
                ));
            }
            Self::LeaseTooLong { max } => {
                return ctx.reply_error_text(&format!(
                    "ERR value is out of range, the lease must be between 1 and {max} ms (lock.max-lease)"
                ));
            }
        });
    }
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

impl From<Malformed> for Error {
    fn from(effect: Malformed) -> Self {
        match effect {
            Malformed::Syntax => Self::Syntax,
            Malformed::NotAnInteger => Self::NotAnInteger,
            Malformed::OwnerLength => Self::OwnerLength,
        }
    }
}
