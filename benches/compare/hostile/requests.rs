//! What an attacker sends.

use crate::resp::{request, words};
pub(super) use crate::rivals::LONG_LEASE as LEASE;

/// Where places are told.
pub(super) const CHANNEL: &str = "told";

/// A command about several locks.
pub(super) fn several<K: AsRef<[u8]>>(command: &str, keys: &[K], rest: &str) -> Vec<u8> {
    let count = keys.len().to_string();
    let mut arguments: Vec<&[u8]> = vec![command.as_bytes(), count.as_bytes()];
    arguments.extend(keys.iter().map(AsRef::as_ref));
    arguments.extend(rest.split_ascii_whitespace().map(str::as_bytes));
    request(&arguments)
}

/// A request for all of these locks at once.
pub(super) fn acquire_all<K: AsRef<[u8]>>(keys: &[K], rest: &str) -> Vec<u8> {
    several("LOCK.MACQUIRE", keys, rest)
}

/// A request for one lock, with a lease that does not end meanwhile.
pub(super) fn acquire(key: &str, owner: &str, rest: &str) -> Vec<u8> {
    words(&format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LEASE} {rest}"))
}

/// So many names of locks.
pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}:{number:07}")).collect()
}
