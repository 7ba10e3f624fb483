//! Finds out how much of the replication stream each replica has, and when a replica acknowledges more.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr::NonNull;

use redis_module::raw;

use super::callback::{detached, guard};
use super::kind::Section;
use super::{Arg, Ctx};

/// A callback for acknowledgements of replicas.
pub(crate) trait AckEvents {
    /// A replica's acknowledgement (`REPLCONF ACK`) has arrived, but the server has not run this command yet. `Ctx::replicas` returns the
    /// new offset only after that, so the callback should set a timer to call it.
    fn acked();
}

impl Ctx<'_> {
    /// Returns how many bytes this server has written for its replicas, and the last offset that each replica has acknowledged.
    pub(crate) fn replicas(&self) -> (i64, Vec<i64>) {
        let replication = Section::read(self, c"replication");
        let number = |text: &str| text.parse().unwrap_or(0);
        let written = replication.field(c"master_repl_offset").map_or(0, number);
        let mut replicas = BTreeMap::new();
        for place in 0.. {
            let Ok(field) = std::ffi::CString::new(format!("slave{place}")) else { break };
            let Some(replica) = replication.field(&field) else { break };
            // A replica that has reconnected counts once, even if the server does not know yet that its old connection is dead.
            if let Some((name, ack)) = ack(replica) {
                let farthest: &mut i64 = replicas.entry(name).or_default();
                *farthest = ack.max(*farthest);
            }
        }
        (written, replicas.into_values().collect())
    }

    /// Asks all replicas how much of the stream they have. Returns whether the server accepted the question. If the question is in a
    /// transaction, a replica answers with the offset that it had before the transaction, so the answer does not cover changes of the same
    /// transaction.
    pub(crate) fn ask_replicas(&self) -> bool {
        let (replconf, getack, all) = (c"REPLCONF".as_ptr(), c"GETACK".as_ptr(), c"*".as_ptr());
        // "A" keeps the command out of the append-only file. SAFETY: the context is valid (see `new`), and the format says that two texts
        // ending in NUL follow.
        let status =
            unsafe { api!(RedisModule_Replicate(self.raw(), replconf, c"Acc".as_ptr(), getack, all)) };
        status == raw::REDISMODULE_OK as c_int
    }
}

/// Reads a replica's address and offset from a line such as `ip=127.0.0.1,port=6380,state=online,offset=1234,lag=0`. Returns `None` if the
/// replica does not have the data set yet.
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

/// Listens to replicas' acknowledgements until this value is dropped. Meanwhile, `filter` looks at each command that arrives.
pub(crate) struct Acks(NonNull<raw::RedisModuleCommandFilter>);

// SAFETY: only callbacks use the pointer, and they run one at a time under the server's lock.
unsafe impl Send for Acks {}

impl Acks {
    /// Begins to listen to replicas' acknowledgements. Returns `None` if the server refuses.
    pub(crate) fn listen<E: AckEvents>() -> Option<Self> {
        // SAFETY: the context is valid as long as the module is loaded.
        let registered = unsafe { api!(RedisModule_RegisterCommandFilter(detached(), Some(filter::<E>), 0)) };
        NonNull::new(registered).map(Self)
    }
}

impl Drop for Acks {
    fn drop(&mut self) {
        // SAFETY: the context is valid as long as the module is loaded, and the filter is ours.
        unsafe { api!(RedisModule_UnregisterCommandFilter(detached(), self.0.as_ptr())) };
    }
}

/// # Safety
/// Only the server calls this function, with a command that is about to run.
unsafe extern "C" fn filter<E: AckEvents>(command: *mut raw::RedisModuleCommandFilterCtx) {
    guard(c"command-filter", || {
        // SAFETY: the command is the server's, and the server returns null for an argument that is not there.
        let word = |place| unsafe { api!(RedisModule_CommandFilterArgGet(command, place)) };
        let is = |place, text: &[u8]| {
            let word = word(place);
            // SAFETY: the string is the server's, and lives as long as the command.
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
