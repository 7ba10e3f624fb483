//! How far replicas are, and when they say so.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr::NonNull;

use redis_module::raw;

use super::guard::guard;
use super::section::Section;
use super::{Arg, Ctx, detached};

/// Is told that a replica has said how far it is.
pub(crate) trait AckEvents {
    /// A replica has acknowledged something. The server is about to note it, and it can be looked up when the commands that have already
    /// arrived are done.
    fn acked();
}

impl Ctx<'_> {
    /// How many bytes this server has written for its replicas, and how many each has said last that it has.
    pub(crate) fn replicas(&self) -> (i64, Vec<i64>) {
        let replication = Section::read(self, c"replication");
        let number = |text: &str| text.parse().unwrap_or(0);
        let written = replication.field(c"master_repl_offset").map_or(0, number);
        let mut replicas = BTreeMap::new();
        for place in 0.. {
            let Ok(field) = std::ffi::CString::new(format!("slave{place}")) else { break };
            let Some(replica) = replication.field(&field) else { break };
            // One that has come again counts once, though its old link may not be known to be dead.
            if let Some((name, ack)) = ack(replica) {
                let farthest: &mut i64 = replicas.entry(name).or_default();
                *farthest = ack.max(*farthest);
            }
        }
        (written, replicas.into_values().collect())
    }

    /// Asks all replicas how far they are; whether the server took that. What each says is how far it is when the question comes to
    /// it, so a question in the transaction of a change does not tell of that change.
    pub(crate) fn ask_replicas(&self) -> bool {
        let (replconf, getack, all) = (c"REPLCONF".as_ptr(), c"GETACK".as_ptr(), c"*".as_ptr());
        // "A": it goes into no append-only file.
        // SAFETY: the context is valid (see `new`); the format names two texts that end in NUL, and those follow it.
        let status =
            unsafe { api!(RedisModule_Replicate(self.raw(), replconf, c"Acc".as_ptr(), getack, all)) };
        status == raw::REDISMODULE_OK as c_int
    }
}

/// A replica's address, and what it has said, of a line as `ip=127.0.0.1,port=6380,state=online,offset=1234,lag=0`; none where it
/// still waits for the data set.
fn ack(replica: &str) -> Option<(&str, i64)> {
    let value = |name: &str| {
        replica
            .split(',')
            .find_map(|part| part.split_once('=').filter(|(key, _)| *key == name))
            .map(|(_, value)| value)
    };
    value("state").filter(|state| *state == "online")?;
    let (name, _) = replica.split_once(",state=")?;
    Some((name, value("offset")?.parse().ok()?))
}

/// Has it told when a replica says how far it is, until it is dropped: each command that comes is looked at meanwhile.
pub(crate) struct Acks(NonNull<raw::RedisModuleCommandFilter>);

// SAFETY: a pointer that only callbacks use, and they run one at a time under the server's lock.
unsafe impl Send for Acks {}

impl Acks {
    /// Begins to listen to replicas; `None` if the server refuses.
    pub(crate) fn listen<E: AckEvents>() -> Option<Self> {
        // SAFETY: the context is valid as long as the module is loaded.
        let filter =
            unsafe { api!(RedisModule_RegisterCommandFilter(detached::context(), Some(look::<E>), 0)) };
        NonNull::new(filter).map(Self)
    }
}

impl Drop for Acks {
    fn drop(&mut self) {
        // SAFETY: the context is valid as long as the module is loaded, and the filter is ours.
        unsafe { api!(RedisModule_UnregisterCommandFilter(detached::context(), self.0.as_ptr())) };
    }
}

/// # Safety
/// Called by the server, with a command that is about to run.
unsafe extern "C" fn look<E: AckEvents>(command: *mut raw::RedisModuleCommandFilterCtx) {
    guard(c"command-filter", || {
        // SAFETY: the server's command; it answers null for an argument that is not there.
        let word = |place| unsafe { api!(RedisModule_CommandFilterArgGet(command, place)) };
        let is = |place, text: &[u8]| {
            let word = word(place);
            // SAFETY: the server's string, which lives as long as the command.
            !word.is_null() && unsafe { Arg::new(word) }.bytes().eq_ignore_ascii_case(text)
        };
        if is(0, b"REPLCONF") && is(1, b"ACK") {
            E::acked();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::ack;

    #[test]
    fn a_replica_counts_once_it_has_the_data_set() {
        assert_eq!(
            ack("ip=127.0.0.1,port=6380,state=online,offset=1234,lag=0,type=replica"),
            Some(("ip=127.0.0.1,port=6380", 1234))
        );
        assert_eq!(ack("ip=::1,port=6380,state=online,offset=0,lag=1"), Some(("ip=::1,port=6380", 0)));
        assert_eq!(ack("ip=127.0.0.1,port=6380,state=wait_bgsave,offset=1234,lag=0"), None);
        assert_eq!(ack(""), None);
    }
}
