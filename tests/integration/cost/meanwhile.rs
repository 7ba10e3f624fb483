//! While work is left over, commands see the state as if all the work had been done.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use redis::Value;

use super::run::Stage;
use crate::support::{Client, Part, Payload, convert, grant, reader, transaction, wait_for};

fn number(reply: &Result<Value, String>, field: &str) -> i64 {
    let info: HashMap<String, String> = convert(reply.clone().unwrap());
    info[field].parse().unwrap()
}

fn lock_field(client: &mut Client, field: &str) -> u64 {
    client.info("lock", field).parse().unwrap()
}

#[test]
fn a_connection_that_has_closed_holds_nothing_from_then_on() {
    let mut stage = Stage::new();
    stage.run(
        "1 l SUBSCRIBE told
        1 a ACL SETUSER gone on nopass ~* &* +@all
        1 b AUTH gone x
        9000 b LOCK.ACQUIRE k$ OWNER o PX 3600000 SESSION
        1 a LOCK.ACQUIRE z OWNER h PX 3600000
        1000 b LOCK.ACQUIRE z OWNER w$ BLOCK 0 NOTIFY told",
    );
    let lines = [
        "CLIENT KILL USER gone",
        "LOCK.ACQUIRE k0 OWNER new",
        "LOCK.ACQUIRE k8999 OWNER new",
        "LOCK.RELEASE z h",
    ];
    let replies = transaction(&mut stage.client, &lines);
    for granted in &replies[1..3] {
        assert_eq!(grant(granted.clone().unwrap()).unwrap().owner, "new");
    }
    stage.run("until lock_places 0\nuntil lock_sessions 0\nuntil lock_keys 2");
    stage.judge(0);
}

/// The restored lock has more holders than the limit allows, and all leases but one have ended.
#[test]
fn a_restored_lock_of_very_many_holders() {
    const MANY: u64 = 20_000;
    let mut stage = Stage::new();
    let owners: Vec<String> = (0..MANY).map(|number| format!("o{number}")).collect();
    let parts: Vec<Part<'_>> = (1..)
        .zip(&owners)
        .map(|(fence, owner)| {
            let shorter = if fence == 1 { 0 } else { 600_001 };
            Part { shorter, ..reader(owner.as_bytes(), fence) }
        })
        .collect();
    let payload = Payload::lock(&mut stage.client, b"any", 1, 1).packed(false, &parts).encode();
    stage.client.ask_words::<(), _>([b"RESTORE".as_slice(), b"k", b"600000", &payload]);
    let replies =
        transaction(&mut stage.client, &["LOCK.ACQUIRE k OWNER new", "LOCK.INFO k", "LOCK.RELEASE k o7"]);
    assert_eq!(replies[0], Ok(Value::Nil));
    assert_eq!(number(&replies[1], "holders"), 1);
    assert!(replies[2].as_ref().unwrap_err().starts_with("NOTHELD"));
    wait_for("the lock", || stage.client.acquire("k", "OWNER new SHARED").is_some());
    assert_eq!(lock_field(&mut stage.client, "lock_lapses"), MANY - 1);
    stage.run("");
    stage.judge(0);
}

/// Commands must look through the leases of these locks' holders each time, and each holder has a thousand places.
#[test]
fn locks_that_are_touched_all_the_time_keep_no_other_waiting() {
    let mut stage = Stage::new();
    stage.run(
        "1000 a LOCK.MACQUIRE 40 a*40 OWNER o$ SHARED PX 3600000
        40000 n$/9000 LOCK.ACQUIRE a$%40 OWNER w$ BLOCK 0 NOTIFY told
        1 b LOCK.ACQUIRE v OWNER h PX 3600000",
    );
    let touches: Vec<String> =
        (0..4_000).map(|number| format!("PEXPIRE a{} 3{number:06}", number % 40)).collect();
    let over = AtomicBool::new(false);
    let mut other = stage.other_client();
    let mut next = stage.other_client();
    thread::scope(|scope| {
        let touching = scope.spawn(|| {
            let mut rounds = 0;
            while !over.load(Ordering::Relaxed) {
                other.send_all(&touches);
                rounds += 1;
            }
            rounds
        });
        wait_for("the locks to be touched", || lock_field(&mut stage.client, "lock_most_work") > 0);
        next.begin("LOCK.ACQUIRE v OWNER next BLOCK 0");
        wait_for("one to wait", || lock_field(&mut stage.client, "lock_waiters") == 40_001);
        stage.client.ask::<i64>("DEL v");
        // The other clients continue until the waiter is told. If they kept it waiting, the test would time out here.
        let granted = next.finish();
        over.store(true, Ordering::Relaxed);
        assert!(touching.join().unwrap() > 0);
        assert_eq!(grant(granted.unwrap()).unwrap().owner, "next");
    });
}
