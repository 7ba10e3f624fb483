//! `redislock doctor` on servers that are wrong in one way each, and on one that is right.

use serde_json::Value;

use super::redislock;
use crate::support::{Server, Setup};

/// The code, and what was found, with how bad it is.
fn looked_at(server: &Server) -> (Option<i32>, Vec<(String, String)>) {
    let ran = redislock(server, &["doctor", "--json"]);
    let json: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found = json[0]["findings"].as_array().unwrap().iter();
    (ran.code, found.map(|finding| (text(&finding["id"]), text(&finding["severity"]))).collect())
}

fn right() -> Setup {
    Setup::new().set("appendonly", "yes").set("appendfsync", "always")
}

#[track_caller]
fn finds(server: &Server, code: i32, id: &str, severity: &str) {
    assert_eq!(looked_at(server), (Some(code), vec![(id.to_owned(), severity.to_owned())]));
}

#[test]
fn a_right_server() {
    let server = right().start();
    assert_eq!(looked_at(&server), (Some(0), Vec::new()));
    assert!(redislock(&server, &["doctor"]).out.contains("nothing endangers locks here"));
}

#[test]
fn six_servers_that_are_wrong() {
    finds(&right().without_module().start(), 2, "no-module", "danger");
    finds(
        &right().set("maxmemory", "100mb").set("maxmemory-policy", "allkeys-lru").start(),
        2,
        "eviction",
        "danger",
    );
    finds(&Setup::new().start(), 1, "no-aof", "warning");
    finds(&right().set("timeout", "60").start(), 1, "timeout", "warning");
    finds(&right().module_args("claim 1000").start(), 1, "claim", "warning");
    let primary = right().start();
    let replica = primary.replica_with(right());
    finds(&primary, 2, "failover", "danger");
    finds(&replica, 2, "replica", "danger");
}

#[test]
fn what_a_user_may_not_ask_is_said() {
    let (server, mut client) = right().start_and_client();
    client.ask::<()>("ACL SETUSER default nopass -@all +auth +hello +client +ping +command");
    let (code, found) = looked_at(&server);
    assert_eq!(code, Some(0));
    assert!(found.iter().all(|(id, severity)| id == "unknown" && severity == "unknown"), "{found:?}");
    assert!(found.len() >= 3, "{found:?}");
}
