//! What the user of the running command has a right to.

use redis_module::raw;

use super::{Arg, Ctx};

impl Ctx<'_> {
    /// Whether the user has the right to a channel. A refusal is noted in the server's `ACL LOG`.
    pub(crate) fn may_use_channel(&self, channel: &[u8]) -> bool {
        const PUBLISH: i32 = raw::REDISMODULE_CMD_CHANNEL_PUBLISH.cast_signed();
        let may = |user: *mut raw::RedisModuleUser, channel: Arg<'_>| {
            // SAFETY: user and string are valid.
            let status =
                unsafe { api!(RedisModule_ACLCheckChannelPermissions(user, channel.raw(), PUBLISH)) };
            let allowed = status == raw::REDISMODULE_OK as i32;
            if !allowed {
                let reason = raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_CHANNEL;
                // SAFETY: context, user and string are valid; the server keeps copies.
                unsafe { api!(RedisModule_ACLAddLogEntry(self.raw(), user, channel.raw(), reason)) };
            }
            allowed
        };
        self.with_string(channel, |channel| self.with_user(|user| may(user, channel)))
    }

    /// Whether the user has the right to read a key.
    pub(crate) fn may_read(&self, key: &[u8]) -> bool {
        self.may(key, raw::REDISMODULE_CMD_KEY_ACCESS)
    }

    /// Whether the user has the right to write to a key.
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

    /// Asks something of the user; `false` where there is none, as for what another module runs, or none any more.
    fn with_user(&self, body: impl FnOnce(*mut raw::RedisModuleUser) -> bool) -> bool {
        // Some servers (Redis 7.2 and 7.4, Valkey 8.0) crash where the name of no user is asked.
        if !self.is_connected() && !self.has_user() {
            return false;
        }
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
        let allowed = body(user);
        // SAFETY: ours, and not used any more.
        unsafe { api!(RedisModule_FreeModuleUser(user)) };
        allowed
    }
}
