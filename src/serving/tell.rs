//! Replies to blocked clients, and handles their departure.

use std::num::NonZeroU64;

use super::host::Server;
use super::table::{TABLE, now};
use super::tick;
use crate::error::Error;
use crate::reply::{reply_grant, reply_grants};
use crate::server::{BlockedEvents, Ctx, ErrorReply, reply_arrived};
use crate::stats;
use rules::lock::{Got, NotHeld};
use rules::waiting::{self, Answer, Refusal, RequestId, RequestedLock, RequestedLocks};

/// The callbacks that the server runs for blocked clients.
pub(super) struct BlockedReplies;

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
        tick::arm();
    }

    fn departed(number: NonZeroU64) {
        let request = RequestId(number);
        TABLE.with(|table| table.depart(request));
        tick::arm();
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
            tick::hear_of_turns();
        } else {
            tick::arm();
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
