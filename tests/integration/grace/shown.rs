//! `LOCK.INFO` shows for how long a grace keeps a lock from its waiters.

use std::collections::HashMap;

use redis::Value;

use crate::support::{Server, Setup, Waiter, convert, wait_for};

fn with_grace(ms: i64) -> Server {
    Setup::new().module_args(&format!("failover-grace {ms}")).start()
}

#[test]
fn a_free_lock_with_a_queue_tells_when_it_can_be_granted() {
    let server = with_grace(600_000);
    for mut client in [server.client(), server.client_resp3()] {
        assert_eq!(client.lock_info("k"), None, "free, and nobody waits");
        let bob = Waiter::new(&server, "k", "OWNER bob");
        let info = client.lock_info("k").unwrap();
        let grace: i64 = info["grace-ms"].parse().unwrap();
        assert!((500_000..=600_000).contains(&grace), "{grace}");
        assert_eq!((&info["holders"][..], &info["waiters"][..], info.len()), ("0", "1", 3));
        assert_eq!(client.holder("k"), None);
        let full: HashMap<String, Value> = client.ask("LOCK.INFO k FULL");
        assert_eq!(full["grants"], Value::Array(vec![]));
        let queue: Vec<HashMap<String, String>> = convert(full["queue"].clone());
        assert_eq!((queue.len(), &queue[0]["owner"][..]), (1, "bob"));
        wait_for("it to run", || client.lock_info("k").unwrap()["grace-ms"].parse::<i64>().unwrap() < grace);
        drop(bob);
        wait_for("nobody to wait", || client.lock_info("k").is_none());
    }
}

#[test]
fn a_held_lock_and_a_reserved_one_tell_it_too_and_no_more_when_it_is_over() {
    let server = with_grace(1);
    let mut client = server.client();
    wait_for("the end of the grace", || client.send("LOCK.ACQUIRE k OWNER alice PX 600000").is_ok());
    client.ask::<()>("CONFIG SET lock.failover-grace 600000");
    assert!(client.lock_info("k").unwrap().contains_key("grace-ms"));
    let _all = crate::several::waits(&server, "k free", "bob", "");
    let reserved = client.lock_info("free").unwrap();
    assert_eq!(reserved["reserved-for"], "bob");
    assert!(reserved.contains_key("grace-ms"), "{reserved:?}");
    client.ask::<()>("CONFIG SET lock.failover-grace 0");
    for key in ["k", "free"] {
        assert!(!client.lock_info(key).unwrap().contains_key("grace-ms"));
    }
}

/// A replica grants nothing, grace or not.
#[test]
fn a_replica_shows_no_grace() {
    let primary = Server::start();
    primary.client().acquire("k", "OWNER alice PX 600000").unwrap();
    let replica = primary.replica_with(Setup::new().module_args("failover-grace 600000"));
    let info = replica.client().lock_info("k").unwrap();
    assert!(!info.contains_key("grace-ms"), "{info:?}");
}
