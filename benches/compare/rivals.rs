//! Redislock and what it stands beside: the same step, said in each one's own commands.

use crate::report::Report;
use crate::resp::{request, words};
use crate::server::Server;

/// The lease that is asked for where its length does not matter, in ms.
pub(crate) const LEASE: &str = "30000";

/// A way to take a lock and give it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rival {
    /// `LOCK.ACQUIRE` and `LOCK.RELEASE`.
    Redislock,
    /// `SET NX PX` and `DEL`: no owner is looked at. The server's own floor.
    SetDel,
    /// The same on a server that has the module loaded.
    SetDelBesideModule,
    /// `SET NX PX` and compare-and-delete in Lua.
    SetLua,
    /// `SET NX PX` and `DELIFEQ`, which Valkey has from 9.0 on.
    SetDelifeq,
    /// `SET NX PX` and `DELEX ... IFEQ`, which Redis has from 8.4 on.
    SetDelex,
    /// A re-entrant lock in a hash, both halves in Lua, with `PUBLISH` on unlock.
    HashLua,
}

impl Rival {
    const ALL: [Self; 7] = [
        Self::Redislock,
        Self::SetDel,
        Self::SetDelBesideModule,
        Self::SetLua,
        Self::SetDelifeq,
        Self::SetDelex,
        Self::HashLua,
    ];

    /// Those for which the server has the commands; of the others the report says that they are left out.
    pub(crate) fn all(server: &mut Server, report: &mut Report) -> Vec<Self> {
        let mut rivals = Self::ALL.to_vec();
        rivals.retain(|rival| {
            let missing = rival.command().filter(|command| !server.knows(command));
            if let Some(command) = missing {
                report.note(format!("{}: left out, this server has no `{command}`", rival.name()));
            }
            missing.is_none()
        });
        rivals
    }

    /// The command that not every server has.
    fn command(self) -> Option<&'static str> {
        match self {
            Self::SetDelifeq => Some("DELIFEQ"),
            Self::SetDelex => Some("DELEX"),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redislock => "Redislock",
            Self::SetDel => "SET NX PX + DEL",
            Self::SetDelBesideModule => "SET NX PX + DEL, module loaded",
            Self::SetLua => "SET NX PX + compare-and-delete in Lua",
            Self::SetDelifeq => "SET NX PX + DELIFEQ",
            Self::SetDelex => "SET NX PX + DELEX IFEQ",
            Self::HashLua => "re-entrant hash in Lua with PUBLISH",
        }
    }

    /// Whether it runs on a server with the module. The others' servers know nothing of it.
    pub(crate) fn needs_module(self) -> bool {
        matches!(self, Self::Redislock | Self::SetDelBesideModule)
    }

    /// How the replies to `acquire` and `release` begin where both succeeded.
    pub(crate) fn success(self) -> [&'static [u8]; 2] {
        match self {
            Self::Redislock => [b"*4\r\n", b":0\r\n"],
            Self::HashLua => [b"$-1\r\n", b":1\r\n"],
            _ => [b"+OK\r\n", b":1\r\n"],
        }
    }
}

/// The scripts, by the names that a server gave them.
pub(crate) struct Scripts {
    compare_and_delete: String,
    hash_lock: String,
    hash_unlock: String,
    hash_renew: String,
}

impl Scripts {
    /// Loads them, so that clients send `EVALSHA` as they do in life.
    pub(crate) fn load(server: &mut Server) -> Self {
        Self {
            compare_and_delete: server.script(include_str!("lua/compare_and_delete.lua")),
            hash_lock: server.script(include_str!("lua/hash_lock.lua")),
            hash_unlock: server.script(include_str!("lua/hash_unlock.lua")),
            hash_renew: server.script(include_str!("lua/hash_renew.lua")),
        }
    }

    /// The request that takes a lock for that many ms, without waiting.
    pub(crate) fn acquire(&self, rival: Rival, key: &str, owner: &str, lease: &str) -> Vec<u8> {
        match rival {
            Rival::Redislock => words(&format!("LOCK.ACQUIRE {key} OWNER {owner} PX {lease}")),
            Rival::HashLua => request(&["EVALSHA", &self.hash_lock, "1", key, lease, &hash_owner(owner)]),
            _ => words(&format!("SET {key} {owner} NX PX {lease}")),
        }
    }

    /// The request that gives it back.
    pub(crate) fn release(&self, rival: Rival, key: &str, owner: &str) -> Vec<u8> {
        match rival {
            Rival::Redislock => words(&format!("LOCK.RELEASE {key} {owner}")),
            Rival::SetDel | Rival::SetDelBesideModule => words(&format!("DEL {key}")),
            Rival::SetLua => request(&["EVALSHA", &self.compare_and_delete, "1", key, owner]),
            Rival::SetDelifeq => words(&format!("DELIFEQ {key} {owner}")),
            Rival::SetDelex => words(&format!("DELEX {key} IFEQ {owner}")),
            Rival::HashLua => {
                let (channel, owner) = (channel(key), hash_owner(owner));
                request(&["EVALSHA", &self.hash_unlock, "2", key, &channel, "0", LEASE, &owner])
            }
        }
    }

    /// What a watchdog sends to renew the lease, in ms, of a lock in a hash.
    pub(crate) fn renew_hash(&self, key: &str, owner: &str, lease: &str) -> Vec<u8> {
        request(&["EVALSHA", &self.hash_renew, "1", key, lease, &hash_owner(owner)])
    }
}

/// Where a lock in a hash is announced to be free.
pub(crate) fn channel(key: &str) -> String {
    format!("lock_channel:{{{key}}}")
}

/// The client and its thread.
fn hash_owner(owner: &str) -> String {
    format!("{owner}:1")
}
