//! The client of a running command, and whether it may use `SESSION`, `NOTIFY` and `SYNC`.

use std::sync::Arc;

use super::messages;
use crate::config;
use crate::error::Error;
use crate::server::Ctx;
use rules::waiting::Caller;

/// The client of the running command.
pub(super) fn caller(ctx: &Ctx<'_>) -> Caller {
    Caller {
        connection: ctx.client_id(),
        may_block: ctx.may_block(),
        most_waiters: config::max_waiters(),
        most_places: config::max_places(),
        claim: config::CLAIM.get(),
    }
}

/// Refuses `SESSION` in a script, which has no connection of its own, and on a replica, which renews and ends no grants by itself.
pub(super) fn may_have_session(ctx: &Ctx<'_>) -> Result<(), Error> {
    if ctx.is_replica() {
        Err(Error::SessionOnReplica)
    } else if !ctx.is_connected() {
        Err(Error::SessionInScript)
    } else {
        Ok(())
    }
}

/// Returns the address for messages to the client of the running command: the client's user and this channel. Returns an error if the user
/// has no right to the channel, if a script runs the command, or if this server is a replica, which hands no lock over.
pub(super) fn may_be_notified(ctx: &Ctx<'_>, channel: &[u8]) -> Result<Arc<[u8]>, Error> {
    if ctx.is_replica() {
        Err(Error::NotifyOnReplica)
    } else if !ctx.is_connected() {
        Err(Error::NotifyInScript)
    } else if !ctx.may_use_channel(channel) {
        Err(Error::ChannelDenied)
    } else {
        Ok(messages::address(&ctx.user_of(ctx.client_id()).unwrap_or_default(), channel))
    }
}

/// Refuses `SYNC` if the client can't be blocked until replicas confirm the command.
pub(super) fn may_reply_later(ctx: &Ctx<'_>) -> Result<(), Error> {
    if ctx.may_block() {
        Ok(())
    } else if ctx.is_replica() {
        Err(Error::SyncOnReplica)
    } else if ctx.is_script() {
        Err(Error::SyncInScript)
    } else {
        Err(Error::SyncInTransaction)
    }
}
