//! The client of a running command: blocks it, and says whether it may use `SESSION`, `NOTIFY` and `SYNC`.

use std::sync::Arc;

use super::companion::companion;
use super::open_lock::OpenLock;
use super::tell::BlockedReplies;
use super::{holders, messages};
use crate::config;
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::server::{BlockedClient, Ctx};
use rules::lock::Millis;
use rules::waiting::{self, Caller, Holder, LockAccess, LockId, RequestId, WaitLimits};

/// The client of the running command.
pub(super) struct Client<'a>(pub(super) &'a Ctx<'a>);

impl Caller<OpenLock<'_>> for Client<'_> {
    fn id(&self) -> u64 {
        self.0.client_id()
    }

    fn may_block(&self) -> bool {
        self.0.may_block()
    }

    fn limits(&self) -> WaitLimits {
        WaitLimits {
            waiters: config::max_waiters(),
            places: config::max_places(),
            claim: config::CLAIM.get(),
        }
    }

    fn block(&mut self, lock: &OpenLock<'_>, request: RequestId) -> Option<BlockedClient> {
        let parked_on = companion(lock.key(), self.0.is_cluster());
        BlockedClient::new::<BlockedReplies>(self.0, &parked_on, request.0)
    }

    fn holders(&mut self, _lock: &OpenLock<'_>, id: &LockId, now: Millis, most: usize) -> Vec<Holder> {
        let read = |lock: &LockKey<'_>| waiting::holders(lock.value(), lock.deadline(), now, most);
        holders::peek(self.0, id, read).unwrap_or_default()
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
