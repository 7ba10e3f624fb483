//! What `LOCK.INFO` shows right after a server has stood still for longer than a session's lease: what holds, though nothing has been
//! done about it yet.

use std::collections::HashMap;

use redis::Value;

use super::stall::{STALLS, Stall, stall};
use crate::support::{Client, Server, Setup, convert};

fn server() -> Server {
    Setup::new().set("busy-reply-threshold", "60000").start()
}

/// The first thing that the server does after a stall, twice over: the first look may have the key deleted.
fn looks(server: &Server, client: &mut Client, how: Stall) -> Vec<Option<HashMap<String, Value>>> {
    let lines = ["LOCK.INFO k", "LOCK.INFO k", "LOCK.INFO k FULL"];
    stall(server, how, client, &lines).into_iter().map(|reply| convert(reply.unwrap())).collect()
}

fn number(look: &HashMap<String, Value>, field: &str) -> i64 {
    convert(look[field].clone())
}

fn text(look: &HashMap<String, Value>, field: &str) -> String {
    convert(look[field].clone())
}

#[test]
fn the_only_holder() {
    for how in STALLS {
        let server = server();
        let (mut alice, mut client) = (server.client(), server.client());
        let held = alice.acquire("k", "OWNER alice PX 1000 SESSION").unwrap();
        let id: i64 = alice.ask("CLIENT ID");
        for look in looks(&server, &mut client, how) {
            let look = look.unwrap_or_else(|| panic!("{how:?}: the lock is said to be free"));
            assert_eq!(
                (text(&look, "owner"), number(&look, "fence")),
                ("alice".into(), held.fence),
                "{how:?}"
            );
            assert_eq!((number(&look, "holders"), number(&look, "client-id")), (1, id), "{how:?}");
            assert!(
                number(&look, "held-ms") >= 1500 && (1..=1000).contains(&number(&look, "lease-ms")),
                "{look:?}"
            );
        }
        assert_eq!(client.holder("k").unwrap().fence, held.fence);
    }
}

/// The key outlives the leases of some, or of none.
#[test]
fn all_of_several_holders() {
    for how in STALLS {
        for latest in ["PX 600000", "PX 1000 SESSION"] {
            let server = server();
            let (mut alice, mut client) = (server.client(), server.client());
            for (owner, options) in
                [("a", "PX 1000 SESSION"), ("plain", "PX 1200"), ("b", "PX 1000 SESSION"), ("c", latest)]
            {
                alice.acquire("k", &format!("OWNER {owner} SHARED {options}")).unwrap();
            }
            let looks = looks(&server, &mut client, how);
            for look in &looks {
                let look = look.as_ref().unwrap_or_else(|| panic!("{how:?}: the lock is said to be free"));
                assert_eq!(
                    (text(look, "owner"), number(look, "holders")),
                    ("a".into(), 3),
                    "{how:?}, {latest}"
                );
            }
            let grants: Vec<HashMap<String, Value>> = convert(looks[2].as_ref().unwrap()["grants"].clone());
            let owners: Vec<String> = grants.iter().map(|grant| text(grant, "owner")).collect();
            assert_eq!(owners, ["a", "b", "c"], "{how:?}, {latest}");
            assert_eq!(client.holding("k"), ["a", "b", "c"], "{how:?}, {latest}");
        }
    }
}

/// What the stall has ended is not shown: a lease without a session, one at its greatest age, one whose connection has closed.
#[test]
fn nobody_who_has_lost_it() {
    for options in ["PX 1000", "PX 1000 SESSION MAXHOLD 1100"] {
        for how in STALLS {
            let server = server();
            let (mut alice, mut client) = (server.client(), server.client());
            alice.acquire("k", &format!("OWNER alice {options}")).unwrap();
            assert!(looks(&server, &mut client, how).iter().all(Option::is_none), "{how:?}, {options}");
        }
    }
    let server = server();
    let (mut alice, mut client) = (server.client(), server.client());
    alice.acquire("k", "OWNER alice PX 1000 SESSION").unwrap();
    let id: i64 = alice.ask("CLIENT ID");
    let kill = format!("CLIENT KILL ID {id}");
    let replies = stall(&server, STALLS[1], &mut client, &["EXISTS k", &kill, "LOCK.INFO k"]);
    assert_eq!(replies[2], Ok(Value::Nil));
}
