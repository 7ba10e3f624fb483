//! Publish/Subscribe, and who may use which channel.

use redis_module::raw;

use super::{Arg, Ctx};

impl Ctx<'_> {
    /// Publishes a message: how many subscribers of this server were sent it. In a cluster it goes to the other nodes too, and
    /// theirs are not counted.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        let receivers = self.with_string(channel, |channel| {
            self.with_string(message, |message| {
                // SAFETY: context and strings are valid (see their `new`); the server copies what it sends.
                unsafe { api!(RedisModule_PublishMessage(self.raw(), channel.raw(), message.raw())) }
            })
        });
        usize::try_from(receivers).unwrap_or(0)
    }

    /// Whether the user of the running command has the right to a channel. A refusal is noted in the server's `ACL LOG`.
    pub(crate) fn may_use_channel(&self, channel: &[u8]) -> bool {
        self.with_string(channel, |channel| self.check_channel(channel))
    }

    fn check_channel(&self, channel: Arg<'_>) -> bool {
        // SAFETY: the context is valid (see `new`). The server answers a string of our own, or null.
        let name = unsafe { api!(RedisModule_GetCurrentUserName(self.raw())) };
        if name.is_null() {
            return false;
        }
        // SAFETY: the string is valid. The server answers a user of our own, or null where there is none any more.
        let user = unsafe { api!(RedisModule_GetModuleUserFromUserName(name)) };
        // SAFETY: ours, and not used any more.
        unsafe { api!(RedisModule_FreeString(self.raw(), name)) };
        if user.is_null() {
            return false;
        }
        let publish = raw::REDISMODULE_CMD_CHANNEL_PUBLISH.cast_signed();
        // SAFETY: user and string are valid.
        let status = unsafe { api!(RedisModule_ACLCheckChannelPermissions(user, channel.raw(), publish)) };
        let allowed = status == raw::REDISMODULE_OK as i32;
        if !allowed {
            let reason = raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_CHANNEL;
            // SAFETY: context, user and string are valid; the server keeps copies.
            unsafe { api!(RedisModule_ACLAddLogEntry(self.raw(), user, channel.raw(), reason)) };
        }
        // SAFETY: ours, and not used any more.
        unsafe { api!(RedisModule_FreeModuleUser(user)) };
        allowed
    }
}
