//! Publishes messages.

use redis_module::raw;

use super::Ctx;

impl Ctx<'_> {
    /// Whether the user with this name has the right to publish to a channel, whoever runs the command. A deleted user has no rights.
    pub(crate) fn user_may_publish(&self, user: &[u8], channel: &[u8]) -> bool {
        const PUBLISH: i32 = raw::REDISMODULE_CMD_CHANNEL_PUBLISH.cast_signed();
        // SAFETY: the string is valid. The server returns a user object that is ours, or null.
        let user =
            self.with_string(user, |user| unsafe { api!(RedisModule_GetModuleUserFromUserName(user.raw())) });
        if user.is_null() {
            return false;
        }
        // SAFETY: user and string are valid.
        let status = self.with_string(channel, |channel| unsafe {
            api!(RedisModule_ACLCheckChannelPermissions(user, channel.raw(), PUBLISH))
        });
        // SAFETY: the user object is ours, and not used any more.
        unsafe { api!(RedisModule_FreeModuleUser(user)) };
        status == raw::REDISMODULE_OK as i32
    }

    /// Publishes a message. Returns the number of subscribers of this server that got the message. In a cluster, those who said
    /// `SSUBSCRIBE` get the message first. Only if this server has none does the message go to all nodes, which is costly; their
    /// subscribers are not counted.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        let receivers = self.with_string(channel, |channel| {
            self.with_string(message, |message| {
                let (ctx, channel, message) = (self.raw(), channel.raw(), message.raw());
                let in_shard = if self.is_cluster() {
                    // SAFETY: context and strings are valid (see their `new`), and the server copies what it sends.
                    unsafe { api!(RedisModule_PublishMessageShard(ctx, channel, message)) }
                } else {
                    0
                };
                if in_shard > 0 {
                    return in_shard;
                }
                // SAFETY: as above.
                unsafe { api!(RedisModule_PublishMessage(ctx, channel, message)) }
            })
        });
        usize::try_from(receivers).unwrap_or(0)
    }
}
