//! What is in a file or a payload is refused, or becomes a lock in range, which is written as it was read.

use super::fences::{last_fence, next_fence};
use crate::lock::{Deadline, Fence, LONGEST_LEASE, Value};
use crate::server::NativeType;
use crate::server::fuzzing::Stream;

/// The first byte is the encoding.
pub(crate) fn grant(bytes: &[u8]) {
    let Some((&encoding, bytes)) = bytes.split_first() else { return };
    let Ok(value) = Stream::from_bytes(bytes).read(|rdb| Value::load(rdb, encoding.into())) else {
        return;
    };
    assert_eq!(i32::from(encoding), Value::ENCODING);
    let count = value.all(Deadline::Never).count();
    assert!(count > 0 && value.room().most().is_none_or(|most| count <= most as usize));
    for grant in value.all(Deadline::Never).map(|held| held.grant) {
        assert!((1..=128).contains(&grant.owner().text().as_ref().len()));
        assert!((1..=Fence::MAX.get()).contains(&grant.fence().get()));
        assert!(grant.holds() > 0);
        assert!(grant.max_hold().is_none_or(|age| (1..=LONGEST_LEASE).contains(&age)));
        assert!(last_fence() >= Some(grant.fence()));
    }
    let mut saved = Stream::default();
    saved.write(|rdb| value.save(rdb));
    assert_eq!(Stream::new(saved.items).read(|rdb| Value::load(rdb, Value::ENCODING)), Ok(value));
}

/// What is beside the keys in a file: the first byte is the encoding.
pub(crate) fn aux(bytes: &[u8]) {
    let Some((&encoding, bytes)) = bytes.split_first() else { return };
    let before = last_fence();
    let loaded = Stream::from_bytes(bytes).read(|rdb| Value::load_aux(rdb, encoding.into()));
    let after = last_fence();
    assert!(after >= before);
    assert!(loaded.is_ok() || after == before);
    match next_fence(0) {
        Some(next) => assert!(Some(next) > after),
        None => assert_eq!(after, Some(Fence::MAX)),
    }
}
