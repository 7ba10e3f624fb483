//! What the server tells of waiters and of keys: answers due, clients gone, locks touched.

use std::num::NonZeroU64;

use super::state::State;
use super::waiter::Answer;
use super::{STATE, grace, sessions, tick, touched};
use crate::commands;
use crate::error::Error;
use crate::keyspace;
use crate::lock::{Grant, Ticket};
use crate::server::{
    Arg, BlockedEvents, Ctx, ErrorReply, KeyspaceEvents, Unlinked, ValueEvents, answer_arrived,
};

/// Listens for all of it.
pub(crate) struct Departures;

impl From<Ticket> for NonZeroU64 {
    fn from(ticket: Ticket) -> Self {
        // Tickets start above 1.
        Self::new(ticket.0).unwrap_or(Self::MIN)
    }
}

impl BlockedEvents for Departures {
    fn answer(ctx: &Ctx<'_>, number: NonZeroU64) {
        let Some(told) = STATE.with(|state| state.tell(Ticket(number.get()))) else { return };
        match told.answer {
            Answer::Granted { fence, holds, lease, .. } => {
                sessions::bind_told(ctx, &told, fence);
                commands::reply_grant(ctx, told.ask.owner.text().as_ref(), fence, holds, lease);
            }
            Answer::WrongType => Error::WrongType.send(ctx),
            Answer::TooManyHolds => Error::TooManyHolds.send(ctx),
            Answer::TimedOut => ctx.reply_null_array(),
        }
    }

    fn departed(number: NonZeroU64) {
        STATE.with(|state| state.depart(Ticket(number.get())));
        tick::arm();
    }

    fn ended(number: NonZeroU64, gone: bool) {
        let ticket = Ticket(number.get());
        // Told, and gone before the event loop came round, so perhaps without the answer: the connection closed, or with
        // threads for input an operator's `CLIENT UNBLOCK` came in between.
        let told = STATE.with(|state| state.told_client(ticket)).filter(|_| gone);
        if told.is_some_and(|(client, unblocked)| !answer_arrived(client, unblocked)) {
            STATE.with(|state| state.depart(ticket));
        }
    }

    fn freed(number: NonZeroU64) {
        STATE.with(|state| state.forget(Ticket(number.get())));
        tick::arm();
    }
}

impl KeyspaceEvents for Departures {
    fn expired(ctx: &Ctx<'_>, key: Arg<'_>) {
        keyspace::expired(ctx, key);
    }

    fn evicted(ctx: &Ctx<'_>, key: Arg<'_>) {
        keyspace::evicted(ctx, key);
    }

    fn touched(ctx: &Ctx<'_>, key: Arg<'_>) {
        if !super::idle() {
            touched(ctx.db(), key.bytes());
        }
    }

    fn loaded(ctx: &Ctx<'_>) {
        keyspace::warn_of_evictions(ctx);
        grace::start();
    }

    fn configured(ctx: &Ctx<'_>) {
        keyspace::warn_of_evictions(ctx);
    }

    fn role_changed(primary: bool) {
        if primary {
            grace::begin();
        } else {
            STATE.with(State::stand_down);
        }
    }

    fn disconnected(client: u64) {
        if STATE.with(|state| state.disconnected(client)) {
            tick::arm();
        }
    }

    fn flushed(db: Option<i32>) {
        STATE.with(|state: &mut State| state.alarm_db(db));
        tick::arm();
    }

    fn swapped(first: i32, second: i32) {
        STATE.with(|state| {
            state.alarm_db(Some(first));
            state.alarm_db(Some(second));
        });
        tick::arm();
    }
}

impl ValueEvents<Grant> for Departures {
    fn unlinked(grant: &Grant, from: &Unlinked) {
        keyspace::unlinked(grant, from);
        if !super::idle() {
            touched(from.db(), from.key().bytes());
        }
    }
}
