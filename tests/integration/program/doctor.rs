//! `redislock doctor` on servers with one problem each, and on a good one.

use std::fs;

use serde_json::Value;

use super::{command, ended, redislock, url};
use crate::support::{Server, Setup, root, wait_for};

/// Returns the exit code, and each finding with its severity.
fn looked_at(server: &Server) -> (Option<i32>, Vec<(String, String)>) {
    looked_at_by(server, "default", "")
}

fn looked_at_by(server: &Server, user: &str, password: &str) -> (Option<i32>, Vec<(String, String)>) {
    let mut doctor = command(&url(server), &["doctor", "--json"]);
    doctor.env("REDISLOCK_USER", user).env("REDISLOCK_PASSWORD", password);
    let ran = ended(doctor);
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
fn doctor_finds_nothing_on_a_right_server() {
    let server = right().start();
    assert_eq!(looked_at(&server), (Some(0), Vec::new()));
    assert!(redislock(&server, &["doctor"]).out.contains("nothing endangers locks here"));
}

#[test]
fn doctor_finds_what_is_wrong_with_six_servers() {
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
fn what_may_not_be_asked_is_not_fine() {
    let (server, mut client) = right().start_and_client();
    client.ask::<()>("ACL SETUSER default nopass -@all +ping");
    let (code, found) = looked_at(&server);
    assert_eq!(code, Some(3));
    assert!(found.iter().all(|(id, severity)| id == "not-checked" && severity == "not-checked"), "{found:?}");
    assert!(found.len() >= 3, "{found:?}");
    let out = redislock(&server, &["doctor"]).out;
    assert!(out.contains("not checked: ACL LIST: NOPERM") && !out.contains("nothing endangers"), "{out}");

    let server = right().start();
    let replica = server.replica_with(right());
    let good = || server.client().info("replication", "min_slaves_good_slaves");
    for setting in [
        "lock.default-lease 30000",
        "lock.max-lease 30000",
        "lock.failover-grace 45000",
        "min-replicas-to-write 1",
    ] {
        server.client().ask::<()>(&format!("CONFIG SET {setting}"));
    }
    wait_for("its replica to count", || good() == "1");
    finds(&server, 1, "replica-settings", "warning");
    replica.client().ask::<()>("ACL SETUSER default -time");
    finds(&server, 3, "not-checked", "not-checked");
}

#[test]
fn doctor_says_why_a_server_accepts_no_writes() {
    finds(&right().set("min-replicas-to-write", "1").start(), 2, "no-replicas", "danger");
}

/// Returns the findings about a user with these rights. There must be no other findings.
fn found_about(rules: &str) -> Vec<String> {
    let (server, mut client) = right().start_and_client();
    client.ask::<()>(&format!("ACL SETUSER app on {rules}"));
    looked_at(&server).1.into_iter().map(|(id, _)| id).collect()
}

#[test]
fn rights_are_asked_of_the_server() {
    for (rules, ids) in [
        (">x ~* +@all", &["break", "writes", "administers"][..]),
        (">x (~* +@all)", &["break", "writes", "administers"]),
        ("nopass ~* +flushall +rename +restore", &["writes"]),
        (">x ~* +@dangerous", &["writes", "administers"]),
        (">x ~* +@admin", &["administers"]),
        (">x ~* +@all -lock.break -@dangerous", &["writes"]),
        (">x ~app:* +lock.acquire +@connection", &["break"]),
        (">x ~app:* +lock.acquire +@connection -@dangerous", &[]),
        (">x ~app:* +lock.acquire +lock.break", &["break"]),
        (">x +lock.acquire +client|kill", &[]), // the rule allows no keys
        (">x ~app:* +get +flushall", &["writes"]),
        (">x ~app:* +@read +@write -@dangerous", &[]),
    ] {
        assert_eq!(found_about(rules), ids, "{rules}");
    }
    // `LOCK.BREAK` without the right to acquire is normal for an operator.
    let without =
        "-lock.acquire -lock.macquire -lock.release -lock.mrelease -lock.extend -lock.mextend -lock.break";
    assert_eq!(found_about(&format!(">x ~* +@all -@dangerous {without}")), ["writes"]);
}

#[test]
fn the_operator_of_the_page_is_told_what_was_not_checked() {
    let (server, mut client) = right().start_and_client();
    let page = fs::read_to_string(root().join("docs/operations/secure.md")).unwrap();
    let ops = page.lines().find(|line| line.contains("ACL SETUSER ops ")).unwrap();
    client.ask::<()>(ops.trim());
    let (code, found) = looked_at_by(&server, "ops", "secret");
    assert_eq!(code, Some(3), "{found:?}");
    assert!(found.iter().all(|(id, _)| id == "not-checked"), "{found:?}");
}

#[test]
fn of_very_many_users_some_are_asked_about() {
    let (server, mut client) = right().start_and_client();
    let lines: Vec<_> =
        (0..1_100).map(|number| format!("ACL SETUSER app:{number:04} on >x ~* +@all -@dangerous")).collect();
    client.send_all(&lines);
    let ran = redislock(&server, &["doctor"]);
    assert_eq!(ran.code, Some(3), "{}", ran.out);
    assert!(ran.out.contains("app:0004 (DEL,") && ran.out.contains(" and 99"), "{}", ran.out);
    assert!(ran.out.contains("not checked: the rights of 10"), "{}", ran.out);
}
