//! Measures the memory of waiters, places and sessions, with an allocator that rounds sizes as the server's allocator does.

use crate::counted::allocated_by;
use crate::lock::{AcquireRequest, Fence, Millis, Owner};
use crate::waiting::RequestId;
use crate::waiting::table::{Arrival, Channel, LockRef, Session, WaitKind, WaitTable};

const MANY: u64 = 10_000;
const NOW: Millis = 1_700_000_000_000;

/// Returns the name of a lock, of 13 bytes.
fn key(number: u64) -> String {
    format!("lock:{number:08}")
}

fn join(table: &mut WaitTable<RequestId>, key: &str, client_id: u64, channel: Option<&str>) {
    let ask = AcquireRequest::new(Owner::random(), 10_000);
    let request = table.waiters.next_request();
    let way = match channel {
        Some(channel) => {
            WaitKind::Notified(Channel { address: channel.as_bytes().into(), wanted: false, start: None })
        }
        None => WaitKind::Blocked(request),
    };
    let arrival = Arrival { ask, way, client_id, since: NOW * 1_000, timeout: 60_000, confirm: None };
    table.join(&[LockRef { db: 0, key: key.as_bytes() }], false, 0, request, arrival);
}

/// Calls `add` many times. Returns how many bytes each call allocates, on average.
fn each(name: &str, mut add: impl FnMut(&mut WaitTable<RequestId>, u64)) -> usize {
    let mut table = WaitTable::new();
    let ((), bytes) = allocated_by(|| (0..MANY).for_each(|number| add(&mut table, number)));
    let bytes = bytes / MANY as usize;
    println!("figure: {name}: {bytes} bytes");
    bytes
}

#[test]
fn what_waiters_take() {
    Owner::random();
    // Each blocked client has a connection of its own.
    let bytes = each("a blocked client, all in one queue", |table, number| {
        join(table, &key(0), number, None);
    });
    assert!(bytes <= 600, "{bytes}");
    let bytes = each("a blocked client, each in a queue of its own", |table, number| {
        join(table, &key(number), number, None);
    });
    assert!(bytes <= 1_024, "{bytes}");
    let channel = Some("channel:1234567");
    let bytes = each("a place, all in one queue", |table, _| join(table, &key(0), 1, channel));
    assert!(bytes <= 700, "{bytes}");
    let bytes = each("a place, each in a queue of its own", |table, number| {
        join(table, &key(number), 1, channel);
    });
    assert!(bytes <= 1_024, "{bytes}");
}

#[test]
fn what_a_session_takes() {
    let bytes = each("a session", |table, number| {
        let (fence, renew_at) = (Fence::new(number + 1).unwrap(), NOW + 3_000);
        let session = Session { client: 1, fence, lease: 10_000, renew_at, over: false };
        table.sessions().start(LockRef { db: 0, key: key(number).as_bytes() }, session);
    });
    assert!(bytes <= 640, "{bytes}");
}
