//! Fuzzes the reading of locks. Checks that any file or payload is refused, or becomes a lock whose numbers are in range, and that this
//! lock stays the same when it is saved and read again.

use std::collections::BTreeSet;

use super::fences::{CLOCKS_DIFFER, forget_fences, last_fence, next_fence};
use crate::server::fuzzing::{Item, Stream};
use crate::server::{self, NativeType};
use rules::encoding::{self, Effect};
use rules::lock::{Deadline, Fence, LONGEST_LEASE, Value};

/// Loads a value. The first byte has the encoding, and a bit that says whether the value counts as sent by a client (`RESTORE`). The value
/// follows.
pub(crate) fn grant(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let (encoding, from_client) = (i32::from(first & 0x7f), first & 0x80 != 0);
    forget_fences();
    let mut stream = Stream::from_bytes(bytes);
    stream.is_from_client = from_client;
    let loaded = stream.read(|rdb| Value::load(rdb, encoding));
    let latest = loaded.iter().flat_map(|value| value.all(Deadline::Never)).map(|held| held.grant.fence());
    let latest = latest.max();
    // The clock of fences notes the fence of a client's payload only when the key exists (see `fences`), and never notes the fence of a
    // refused payload.
    assert_eq!(last_fence(), latest.filter(|_| !from_client));
    let Ok(value) = loaded else { return };
    let soonest = server::now() + CLOCKS_DIFFER;
    assert!(!from_client || latest.is_some_and(|fence| fence.granted_at() <= soonest));
    check(&value);
    assert_eq!(encoding, Value::ENCODING);
    let mut saved = Stream::default();
    saved.write(|rdb| value.save(rdb));
    assert_eq!(Stream::new(saved.items).read(|rdb| Value::load(rdb, Value::ENCODING)), Ok(value));
}

fn check(value: &Value) {
    let count = value.all(Deadline::Never).count();
    assert!(count > 0 && value.room().most().is_none_or(|most| count <= most as usize));
    let slots: Vec<_> = value.all(Deadline::Never).filter_map(|held| held.grant.slot()).collect();
    assert_eq!(slots.iter().collect::<BTreeSet<_>>().len(), slots.len());
    for (number, held) in value.all(Deadline::At(i64::MAX)).enumerate() {
        let grant = held.grant;
        assert!((1..=128).contains(&grant.owner().text().as_ref().len()));
        assert!((1..=Fence::MAX.get()).contains(&grant.fence().get()));
        assert!(grant.holds() > 0);
        assert!(grant.max_hold().is_none_or(|age| (1..=LONGEST_LEASE).contains(&age)));
        assert!(grant.explicit_made().is_none_or(|made| made >= 0));
        // The grant stays the same when it is written as an effect for an append-only file and read again.
        let state = encoding::state(grant, held.deadline, number == 0);
        match (Effect::parse(Some(&state), server::now), number) {
            (Some(Effect::Alone(received, deadline)), 0) | (Some(Effect::Among(received, deadline)), 1..) => {
                assert_eq!((&received, deadline), (grant, held.deadline.max(Deadline::At(0))));
            }
            _ => panic!("{}", state.escape_ascii()),
        }
    }
}

/// Loads several fences in turn, as if each came from a file. The first byte has the encoding.
pub(crate) fn aux(bytes: &[u8]) {
    let Some((&encoding, bytes)) = bytes.split_first() else { return };
    forget_fences();
    let items = Stream::from_bytes(bytes).items;
    for begin in 0..=items.len().min(4) {
        let before = last_fence();
        let rest: Vec<Item> = items.iter().skip(begin).take(2).cloned().collect();
        let loaded = Stream::new(rest.clone()).read(|rdb| Value::load_aux(rdb, encoding.into()));
        let from_value = match rest.first() {
            Some(Item::Number(number)) if i32::from(encoding) == Value::ENCODING => Fence::new(*number),
            _ => None,
        };
        assert_eq!(loaded.is_ok(), from_value.is_some());
        assert_eq!(last_fence(), before.max(from_value));
        match next_fence(0) {
            Some(next) => assert!(Some(next) > before.max(from_value)),
            None => assert_eq!(before.max(from_value), Some(Fence::MAX)),
        }
    }
}
