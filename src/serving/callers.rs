//! The clients of running commands: who may wait, and who may have a session.

use std::sync::{Arc, LazyLock};

use uuid::Uuid;

use super::open_lock::OpenLock;
use super::tell::Telling;
use super::{holders, messages};
use crate::config;
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::lock::Millis;
use crate::server::{Blocked, Ctx};
use crate::waiting::{self, Caller, Holder, LockAccess, LockId, RequestId, WaitLimits};

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

    fn block(&mut self, lock: &OpenLock<'_>, request: RequestId) -> Option<Blocked> {
        let parked_on = companion(lock.key().bytes(), self.0.is_cluster());
        Blocked::new::<Telling>(self.0, &parked_on, request.0)
    }

    fn holders(&mut self, _lock: &OpenLock<'_>, id: &LockId, now: Millis, most: usize) -> Vec<Holder> {
        let look = |lock: &LockKey<'_>| waiting::holders(lock.value(), lock.deadline(), now, most);
        holders::peek(self.0, id, look).unwrap_or_default()
    }
}

/// Refuses `SESSION` to a client without a connection of its own (a script), and on a server that renews and releases nothing.
pub(super) fn may_have_session(ctx: &Ctx<'_>) -> Result<(), Error> {
    if ctx.is_replica() {
        Err(Error::SessionOnReplica)
    } else if !ctx.is_connected() {
        Err(Error::SessionInScript)
    } else {
        Ok(())
    }
}

/// The address at which the client of the running command is told, if it asks for this channel. An error if the client may not use the
/// channel, or if this server hands nothing over.
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

/// Refuses `SYNC` to a client that can't be told later that replicas have confirmed something.
pub(super) fn may_be_told_later(ctx: &Ctx<'_>) -> Result<(), Error> {
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

/// The key that a waiter is blocked on: not the lock's own but a companion in the same slot, which nobody writes.
///
/// The server goes through all clients blocked on a key when that key is made anew, as a lock is after a lapse: with
/// the lock's own key that would be a call for each waiter. So that no client can have it make such calls, nobody can guess the name
/// (as nobody can guess an owner). In a cluster the companion needs the lock's slot, since by
/// it the server sends waiters away when the slot moves; a few keys (no hash tag, but a `}`) have none that can be
/// named, and are their own.
fn companion(key: &[u8], cluster: bool) -> Vec<u8> {
    /// The suffix of this process.
    static SUFFIX: LazyLock<[u8; 16]> = LazyLock::new(|| Uuid::new_v4().into_bytes());
    let suffix = SUFFIX.as_slice();
    if !cluster || has_hash_tag(key) {
        [key, suffix].concat()
    } else if key.is_empty() || key.contains(&b'}') {
        key.to_vec()
    } else {
        [b"{", key, b"}", suffix].concat()
    }
}

/// Whether the server takes only a part of the key, `{...}`, for its slot.
fn has_hash_tag(key: &[u8]) -> bool {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return false };
    let tagged = key.iter().skip(open + 1).position(|&byte| byte == b'}');
    tagged.is_some_and(|len| len > 0)
}
