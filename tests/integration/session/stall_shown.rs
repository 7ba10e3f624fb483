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
fn waits_shows_a_holder_whose_session_outlives_a_stall() {
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
