//! Blocks clients, replies to them, and handles their departure.

use std::num::NonZeroU64;
use std::sync::LazyLock;

use smallvec::SmallVec;
use uuid::Uuid;

use super::locks::{TABLE, now};
use super::steps::{reply_grant, reply_grants};
use super::timers::{self, Server};
use crate::error::Error;
use crate::server::{Arg, BlockedClient, BlockedEvents, Ctx, ErrorReply, reply_arrived};
use crate::stats;
use rules::lock::{Got, NotHeld};
use rules::waiting::{self, Answer, Refusal, RequestId, RequestedLock, RequestedLocks};

/// Blocks the client of the running command. Returns whether the server allows it.
pub(super) fn block(ctx: &Ctx<'_>, keys: &[Arg<'_>], request: RequestId) -> bool {
    let parked_on = keys.first().map(|key| companion(key.bytes(), ctx.is_cluster())).unwrap_or_default();
    let client = BlockedClient::new::<BlockedReplies>(ctx, &parked_on, request.0);
    TABLE.with(|table| match client {
        Some(client) => table.blocked(request, client),
        None => table.refuse(request),
    });
    if client.is_none() {
        timers::arm();
    }
    client.is_some()
}

/// The callbacks that the server runs for blocked clients.
struct BlockedReplies;

impl BlockedEvents for BlockedReplies {
    fn reply(ctx: &Ctx<'_>, number: NonZeroU64) {
        let now = now();
        let Some(told) = waiting::tell(&mut Server::new(ctx), RequestId(number), now) else { return };
        match told.answer {
            Answer::Granted { until } => {
                let (owner, lease) = (told.owner.text(), until.left(now.start));
                match &told.locks {
                    RequestedLocks::One(RequestedLock { got: Some(got), .. }) => {
                        reply_grant(ctx, owner.as_ref(), *got, lease)
                    }
                    locks => {
                        let all: Vec<Got> = locks.all().iter().filter_map(|lock| lock.got).collect();
                        reply_grants(ctx, owner.as_ref(), &all, lease);
                    }
                }
            }
            Answer::WrongType => Error::WrongType.send(ctx),
            Answer::NoReentry(why) => Error::Refused(Refusal::NoReentry(why)).send(ctx),
            Answer::Deadlock => Error::Refused(Refusal::Deadlock).send(ctx),
            Answer::TimedOut | Answer::Gone => ctx.reply_null_array(),
            Answer::Extended { until } => ctx.reply_integer(until.left(now.start)),
            Answer::NotHeld => Error::Refused(Refusal::NotHeld(NotHeld::Unconfirmed, None)).send(ctx),
            Answer::GrantUnconfirmed => Error::GrantUnconfirmed.send(ctx),
            Answer::ExtensionUnconfirmed => Error::ExtensionUnconfirmed.send(ctx),
        }
        if told.synced {
            count(told.answer);
        }
        timers::arm();
    }

    fn departed(number: NonZeroU64) {
        let request = RequestId(number);
        TABLE.with(|table| table.depart(request));
        timers::arm();
    }

    fn finished(_: &Ctx<'_>, number: NonZeroU64, gone: bool) {
        let request = RequestId(number);
        let told = TABLE.with(|table| table.told_connection(request)).filter(|_| gone);
        if told.is_some_and(|(client, unblocked)| !reply_arrived(client, unblocked)) {
            TABLE.with(|table| table.depart(request));
        }
    }

    fn freed(number: NonZeroU64) {
        if TABLE.with(|table| table.freed(RequestId(number))) {
            timers::hear_of_turns();
        } else {
            timers::arm();
        }
    }
}

/// Counts the answer to a request with `SYNC`, by whether replicas confirmed the request.
fn count(answer: Answer) {
    match answer {
        Answer::Granted { .. } | Answer::Extended { .. } => stats::SYNCS.count(),
        Answer::GrantUnconfirmed | Answer::ExtensionUnconfirmed => stats::SYNCS_FAILED.count(),
        _ => (),
    }
}

/// Returns the key on which a lock's waiters are blocked. This companion of the lock's key is in the same hash slot, and nobody writes to
/// it.
///
/// When a key is created, the server visits each client that is blocked on this key. With the lock's own key, each creation, for example
/// after a lapse, would cost one visit per waiter. Nobody can guess the companion's name, so no client can cause such visits. In a cluster,
/// the companion must be in the lock's hash slot, because the server sends waiters away when the hash slot of the key on which they are
/// blocked moves. For a few keys (the empty key, and keys with a `}` but no hash tag), no other name is certain to be in the same hash
/// slot. Such a key is its own companion.
fn companion(key: &[u8], cluster: bool) -> SmallVec<[u8; 128]> {
    /// A random suffix, chosen once per process.
    static SUFFIX: LazyLock<[u8; 16]> = LazyLock::new(|| Uuid::new_v4().into_bytes());
    let suffix = SUFFIX.as_slice();
    let parts: [&[u8]; 4] = if !cluster || has_hash_tag(key) {
        [b"", key, b"", suffix]
    } else if key.is_empty() || key.contains(&b'}') {
        [b"", key, b"", b""]
    } else {
        [b"{", key, b"}", suffix]
    };
    let mut name = SmallVec::with_capacity(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| name.extend_from_slice(part));
    name
}

/// Whether the hash slot comes only from a part of the key, `{...}`.
fn has_hash_tag(key: &[u8]) -> bool {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return false };
    let tagged = key.iter().skip(open + 1).position(|&byte| byte == b'}');
    tagged.is_some_and(|len| len > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash slot comes from the text between the first `{` and the next `}`. If there is no such text, the slot comes from the whole
    /// key: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
    #[test]
    fn a_companion_has_the_slot_of_its_key_and_nobodys_name() {
        let with_suffix: [(&[u8], bool, &[u8]); 7] = [
            (b"k", false, b"k"),
            (b"{a}", false, b"{a}"),
            (b"k", true, b"{k}"),
            (b"{a}b", true, b"{a}b"),
            (b"b{a}{}", true, b"b{a}{}"),
            (b"k{", true, b"{k{}"),
            (b"{", true, b"{{}"),
        ];
        for (key, cluster, start) in with_suffix {
            let companion = companion(key, cluster);
            assert!(companion.starts_with(start) && companion.len() == start.len() + 16, "{companion:?}");
        }
        for key in [&b""[..], b"}", b"{}k", b"k}"] {
            assert_eq!(companion(key, true).as_slice(), key);
        }
    }
}
