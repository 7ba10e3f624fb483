//! Runs commands of the module or the server.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::slice;

use redis_module::raw;

use super::{Ctx, OwnString};

/// The result of `Ctx::call_write`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Called {
    Done,
    /// Another server of the cluster serves the key's hash slot, or the hash slot is moving to another server, and the key has already
    /// moved.
    Elsewhere,
    /// The server or the command replied with an error.
    Refused,
}

/// A part of the text of the server's error for a key that another server of the cluster has. The error has no code of its own, so the
/// module tells it from other errors by this text.
const NOT_HERE: &[u8] = b"non local key";

/// The reply to a command that the module ran.
struct Reply(NonNull<raw::RedisModuleCallReply>);

impl Reply {
    /// Wraps the server's reply. Returns `None` if the server gave no reply.
    fn new(reply: *mut raw::RedisModuleCallReply) -> Option<Self> {
        NonNull::new(reply).map(Self)
    }

    fn is_error(&self) -> bool {
        // SAFETY: the reply is the server's, and lives until `drop`.
        let kind = unsafe { api!(RedisModule_CallReplyType(self.0.as_ptr())) };
        kind == raw::REDISMODULE_REPLY_ERROR as i32
    }

    fn integer(&self) -> i64 {
        // SAFETY: as in `is_error`, and for a reply of another kind the server returns the least integer.
        unsafe { api!(RedisModule_CallReplyInteger(self.0.as_ptr())) }
    }

    /// Returns the text of a reply that is a string, a status or an error.
    fn text(&self) -> &[u8] {
        // SAFETY: as in `is_error`.
        unsafe { text(self.0.as_ptr()) }
    }

    /// Returns the text of the array's element at this index, if there is one.
    fn text_at(&self, index: usize) -> Option<&[u8]> {
        // SAFETY: as in `is_error`, and the server returns null if there is no such element, and frees the element with the whole reply.
        let part = NonNull::new(unsafe { api!(RedisModule_CallReplyArrayElement(self.0.as_ptr(), index)) })?;
        // SAFETY: the part lives as long as the reply.
        Some(unsafe { text(part.as_ptr()) })
    }
}

/// # Safety
/// The reply stays valid for `'a`.
unsafe fn text<'a>(reply: *mut raw::RedisModuleCallReply) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: the reply is valid, and `len` is ours to write to.
    let start = unsafe { api!(RedisModule_CallReplyStringPtr(reply, &raw mut len)) };
    if start.is_null() {
        return &[];
    }
    // SAFETY: the server returned a buffer of `len` bytes that lives as long as the reply.
    unsafe { slice::from_raw_parts(start.cast(), len) }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // SAFETY: the reply is ours, and everything that borrows from it has ended before.
        unsafe { api!(RedisModule_FreeCallReply(self.0.as_ptr())) };
    }
}

impl Ctx<'_> {
    /// Runs one of the module's commands, if all conditions of the server for a write are met (enough replicas, a disk that works, hash
    /// slots that are served here, ...).
    pub(crate) fn call_write(&self, command: &CStr, words: &[&[u8]]) -> Called {
        let strings: Vec<_> = words.iter().map(|word| OwnString::new(word)).collect();
        let raw: Vec<_> = strings.iter().map(|string| string.arg().raw()).collect();
        // "!" sends what the command replicates to the replicas and the append-only file. "S" makes the server check the command like the
        // commands of a script. "E" makes a refusal an error reply (instead of null, with which Valkey 9 crashes). "v" says that an array
        // of strings and its length follow. SAFETY: the context is valid (see `new`), and the format names one array, and the array and its
        // length follow. The server takes references of its own to the strings that it keeps.
        let reply = unsafe {
            api!(RedisModule_Call(self.raw(), command.as_ptr(), c"!SEv".as_ptr(), raw.as_ptr(), raw.len()))
        };
        let Some(reply) = Reply::new(reply) else { return Called::Refused };
        if !reply.is_error() {
            Called::Done
        } else if contains(reply.text(), NOT_HERE) {
            Called::Elsewhere
        } else {
            Called::Refused
        }
    }

    /// Returns the value of one of the server's settings, as `CONFIG GET` shows it; `None` if the server does not show the setting.
    pub(crate) fn setting(&self, name: &CStr) -> Option<String> {
        let (config, format) = (c"CONFIG".as_ptr(), c"Ecc".as_ptr());
        // SAFETY: the context is valid (see `new`), and the format says that two texts ending in NUL follow.
        let reply =
            unsafe { api!(RedisModule_Call(self.raw(), config, format, c"GET".as_ptr(), name.as_ptr())) };
        let reply = Reply::new(reply)?;
        reply.text_at(1).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Returns a client's line of `CLIENT LIST`; `None` if the server does not show it.
    pub(crate) fn line_of(&self, client: u64) -> Option<String> {
        let (word, format) = (c"CLIENT".as_ptr(), c"Eccl".as_ptr());
        let (list, id) = (c"LIST".as_ptr(), c"ID".as_ptr());
        // SAFETY: the context is valid (see `new`), and the format says that two texts ending in NUL and a number follow.
        let reply =
            unsafe { api!(RedisModule_Call(self.raw(), word, format, list, id, client.cast_signed())) };
        let reply = Reply::new(reply).filter(|reply| !reply.is_error())?;
        Some(String::from_utf8_lossy(reply.text()).into_owned())
    }

    /// Whether the running command has a user. The result is right in a script, too. To find out, this function calls a command without its
    /// arguments, so that the command can't run. If there is no user, the server says so before it checks the number of arguments.
    pub(super) fn has_user(&self) -> bool {
        // "E": a refusal is an error reply. "C": the command runs as the user of the context. SAFETY: the context is valid (see `new`), and
        // the format names no words.
        let reply = unsafe { api!(RedisModule_Call(self.raw(), c"LOCK.INFO".as_ptr(), c"EC".as_ptr())) };
        Reply::new(reply).is_some_and(|reply| !contains(reply.text(), b"no user"))
    }

    /// Whether the key's hash slot is moving to this server from another server of the cluster. During the move, clients may already have
    /// acquired locks of this hash slot here, with `ASKING`. The call costs as much as `CLUSTER NODES`.
    pub(crate) fn hash_slot_arrives(&self, key: &[u8]) -> bool {
        let (cluster, format) = (c"CLUSTER".as_ptr(), c"Ecb".as_ptr());
        let keyslot = c"KEYSLOT".as_ptr();
        // SAFETY: the context is valid (see `new`), and the format says that a text ending in NUL and a buffer follow.
        let hash_slot =
            unsafe { api!(RedisModule_Call(self.raw(), cluster, format, keyslot, key.as_ptr(), key.len())) };
        // SAFETY: the context is valid (see `new`), and the format says that a text ending in NUL follows.
        let nodes = unsafe { api!(RedisModule_Call(self.raw(), cluster, c"Ec".as_ptr(), c"NODES".as_ptr())) };
        match (Reply::new(hash_slot), Reply::new(nodes)) {
            (Some(hash_slot), Some(nodes)) => {
                arrives(hash_slot.integer(), &String::from_utf8_lossy(nodes.text()))
            }
            _ => false,
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|found| found == part)
}

/// Whether this node imports the hash slot. If so, the line of `CLUSTER NODES` about this node has the word `[slot-<-node]`.
fn arrives(hash_slot: i64, nodes: &str) -> bool {
    let mut own = nodes.lines().filter(|line| line.contains("myself"));
    let imports = format!("[{hash_slot}-<-");
    own.any(|line| line.split(' ').any(|word| word.starts_with(&imports)))
}

#[cfg(test)]
mod tests {
    use super::arrives;

    #[test]
    fn a_slot_arrives_where_the_own_line_says_so() {
        let nodes = "07c3 127.0.0.1:30004@31004 slave e7d1 0 1 4 connected\n\
            e7d1 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460 [5461-<-292f] [77->-292f]\n\
            292f 127.0.0.1:30003@31003 master - 0 1 3 connected 5461-16383 [9-<-e7d1]\n";
        assert!(arrives(5461, nodes));
        for other in [546, 77, 9, 5460] {
            assert!(!arrives(other, nodes), "{other}");
        }
    }
}
