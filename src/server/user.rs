//! Checks the rights of the running command's user.

use redis_module::raw;

use super::{Arg, Ctx};

impl Ctx<'_> {
    /// Whether the user has the right to publish to a channel. If the user lacks the right, the server's `ACL LOG` gets an entry.
    pub(crate) fn may_use_channel(&self, channel: &[u8]) -> bool {
        const PUBLISH: i32 = raw::REDISMODULE_CMD_CHANNEL_PUBLISH.cast_signed();
        let may = |user: *mut raw::RedisModuleUser, channel: Arg<'_>| {
            // SAFETY: user and string are valid.
            let status =
                unsafe { api!(RedisModule_ACLCheckChannelPermissions(user, channel.raw(), PUBLISH)) };
            let allowed = status == raw::REDISMODULE_OK as i32;
            if !allowed {
                let reason = raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_CHANNEL;
                // SAFETY: context, user and string are valid, and the server keeps copies.
                unsafe { api!(RedisModule_ACLAddLogEntry(self.raw(), user, channel.raw(), reason)) };
            }
            allowed
        };
        self.with_string(channel, |channel| self.with_user(|user| may(user, channel)))
    }

    pub(crate) fn may_read(&self, key: &[u8]) -> bool {
        self.may(key, raw::REDISMODULE_CMD_KEY_ACCESS)
    }

    pub(crate) fn may_write(&self, key: &[u8]) -> bool {
        self.may(key, raw::REDISMODULE_CMD_KEY_UPDATE)
    }

    fn may(&self, key: &[u8], right: u32) -> bool {
        let may = |user: *mut raw::RedisModuleUser, key: Arg<'_>| {
            // SAFETY: user and string are valid.
            let status =
                unsafe { api!(RedisModule_ACLCheckKeyPermissions(user, key.raw(), right.cast_signed())) };
            status == raw::REDISMODULE_OK as i32
        };
        self.with_string(key, |key| self.with_user(|user| may(user, key)))
    }

    /// Runs `body` with the user of the running command, and returns its result. Returns `false` if there is no user, for example because
    /// another module runs the command, or if the user has been deleted.
    fn with_user(&self, body: impl FnOnce(*mut raw::RedisModuleUser) -> bool) -> bool {
        // Some servers (Redis 7.2 and 7.4, Valkey 8.0) crash when asked for the user's name if there is no user.
        if !self.is_connected() && !self.has_user() {
            return false;
        }
        // SAFETY: the context is valid (see `new`). The server returns a string that is ours, or null.
        let name = unsafe { api!(RedisModule_GetCurrentUserName(self.raw())) };
        if name.is_null() {
            return false;
        }
        // SAFETY: the string is valid. The server returns a user object that is ours, or null if the user has been deleted.
        let user = unsafe { api!(RedisModule_GetModuleUserFromUserName(name)) };
        // SAFETY: the string is ours, and not used any more.
        unsafe { api!(RedisModule_FreeString(self.raw(), name)) };
        if user.is_null() {
            return false;
        }
        let allowed = body(user);
        // SAFETY: the user object is ours, and not used any more.
        unsafe { api!(RedisModule_FreeModuleUser(user)) };
        allowed
    }
}
