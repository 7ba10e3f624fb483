//! Clients and their users: who sent the running command, what its user may do, and messages to others.

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

    /// Whether a client with a connection sent the running command. A script or another module may run commands without a connection.
    /// (`client_exists` is not used: on Valkey 9, it is also true for a client without a connection while this client runs a command, and
    /// the server crashes when asked for the address of such a client.)
    pub(crate) fn is_connected(&self) -> bool {
        !self.is_script() && self.user_of(self.client_id()).is_some()
    }

    /// Returns a description, for the log, of the client that sent the running command.
    pub(crate) fn client(&self) -> String {
        let id = self.client_id();
        let user = match self.user_of(id) {
            _ if self.is_script() => return "a script".into(),
            None => return "the server itself".into(),
            Some(user) => user.escape_ascii().to_string(),
        };
        let mut info = raw::RedisModuleClientInfoV1 {
            version: raw::REDISMODULE_CLIENTINFO_VERSION.into(),
            flags: 0,
            id: 0,
            addr: [0; 46],
            port: 0,
            db: 0,
        };
        // SAFETY: the server fills in the structure of the version that the field `version` names.
        unsafe { api!(RedisModule_GetClientInfoById((&raw mut info).cast(), id)) };
        let address: String =
            info.addr.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect();
        format!("client id={id} addr={address}:{} user={user}", info.port)
    }

    /// Returns the name of a client's user; `None` if no connection has this id.
    pub(crate) fn user_of(&self, client: u64) -> Option<Vec<u8>> {
        // SAFETY: the context is valid (see `new`). The server returns a string that is ours, or null.
        let name = unsafe { api!(RedisModule_GetClientUserNameById(self.raw(), client)) };
        // SAFETY: the string is ours, or null.
        unsafe { self.taken(name) }
    }

    /// Returns the name that a client has given its connection (`CLIENT SETNAME`), if there is one.
    pub(crate) fn name_of(&self, client: u64) -> Option<Vec<u8>> {
        // SAFETY: the server wrote the table of functions when it loaded the module. Redis before 7.0.3 does not have this function.
        let name_of = unsafe { raw::RedisModule_GetClientNameById }?;
        // SAFETY: the context is valid (see `new`). The server returns a string that is ours, or null.
        let name = unsafe { name_of(self.raw(), client) };
        // SAFETY: the string is ours, or null.
        unsafe { self.taken(name) }
    }

    /// Frees a string, and returns its bytes; `None` for null.
    ///
    /// # Safety
    /// The string must be ours, or null.
    unsafe fn taken(&self, name: *mut raw::RedisModuleString) -> Option<Vec<u8>> {
        if name.is_null() {
            return None;
        }
        // SAFETY: the string lives until it is freed below.
        let bytes = unsafe { Arg::new(name) }.bytes().to_vec();
        // SAFETY: the string is ours, and nothing refers to it any more.
        unsafe { api!(RedisModule_FreeString(self.raw(), name)) };
        Some(bytes)
    }

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
