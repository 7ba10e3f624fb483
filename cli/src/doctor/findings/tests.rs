//! Tests: reports of servers, and the findings that they lead to.

use super::*;
use crate::doctor::rights::User;

/// A server without findings, except for these changed settings and fields of INFO.
fn server(changed: &[(&str, &str)], info: &[(&str, &str)]) -> Facts {
    let right = [
        ("maxmemory-policy", "noeviction"),
        ("maxmemory", "0"),
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("lock.default-lease", "30000"),
        ("lock.max-lease", "0"),
        ("lock.claim", "5000"),
        ("lock.failover-grace", "0"),
        ("lock.max-holders", "1000"),
        ("timeout", "0"),
        ("tcp-keepalive", "300"),
        ("client-output-buffer-limit", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"),
        ("protected-mode", "yes"),
    ];
    let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    Facts {
        module: Some(Module::Yes(Some(VERSION))),
        settings: Some(own(&right).into_iter().chain(own(changed)).collect()),
        info: own(info).into_iter().collect(),
        users: Some(vec![User { name: "default".to_owned(), nopass: true, may: vec!["FLUSHALL"] }]),
        ..Facts::default()
    }
}

fn ids(facts: &Facts) -> Vec<(&'static str, Severity)> {
    findings(facts).iter().map(|finding| (finding.id, finding.severity)).collect()
}

#[test]
fn a_right_server_has_no_findings() {
    assert_eq!(ids(&server(&[], &[("role", "master")])), []);
}

#[test]
fn each_danger_is_found() {
    let of = |changed: &[(&str, &str)]| ids(&server(changed, &[]));
    assert_eq!(of(&[("maxmemory-policy", "allkeys-lru"), ("maxmemory", "100")]), [("eviction", Danger)]);
    assert_eq!(of(&[("maxmemory-policy", "volatile-ttl")]), [("eviction", Warning)]);
    assert_eq!(of(&[("appendonly", "no")]), [("no-aof", Warning)]);
    assert_eq!(of(&[("appendfsync", "everysec")]), [("aof-not-always", Warning)]);
    assert_eq!(of(&[("no-appendfsync-on-rewrite", "yes")]), [("aof-not-always", Warning)]);
    assert_eq!(of(&[("lock.claim", "1000")]), [("claim", Warning)]);
    assert_eq!(of(&[("lock.max-lease", "10000")]), [("leases", Warning)]);
    assert_eq!(of(&[("lock.failover-grace", "10000"), ("lock.max-lease", "30000")]), [("grace", Danger)]);
    assert_eq!(of(&[("lock.failover-grace", "30000")]), [("grace-no-cap", Warning)]);
    assert_eq!(of(&[("lock.max-holders", "0")]), [("holders", Warning)]);
    assert_eq!(of(&[("timeout", "60")]), [("timeout", Warning)]);
    assert_eq!(of(&[("tcp-keepalive", "0")]), [("keepalive", Warning)]);
    assert_eq!(
        of(&[("client-output-buffer-limit", "normal 0 0 0 slave 0 0 0 pubsub 65536 0 0")]),
        [("pubsub-buffer", Warning)]
    );
    assert_eq!(of(&[("protected-mode", "no"), ("bind", "* -::*")]), [("open", Danger)]);
}

#[test]
fn replicas_want_a_grace_and_a_number_that_confirms() {
    let of =
        |changed: &[(&str, &str)]| ids(&server(changed, &[("role", "master"), ("connected_slaves", "1")]));
    assert_eq!(of(&[]), [("failover", Danger)]);
    assert_eq!(of(&[("min-replicas-to-write", "1")]), [("failover", Warning)]);
    let both =
        [("min-replicas-to-write", "1"), ("lock.failover-grace", "30000"), ("lock.max-lease", "30000")];
    assert_eq!(of(&both), [("grace", Warning)]);
    let [asks, grace, most] = [both[0], ("lock.failover-grace", "45000"), both[2]];
    assert_eq!(of(&[asks, grace, most, ("min-replicas-max-lag", "10")]), []);
    assert_eq!(of(&[asks, grace, most, ("min-replicas-max-lag", "11")]), [("grace", Warning)]);
    assert_eq!(of(&[asks, grace, most, ("min-replicas-max-lag", "0")]), [("failover", Warning)]);
    let mut facts = server(&[asks, grace, most], &[("role", "master"), ("connected_slaves", "1")]);
    let settings = [("maxmemory-policy", "noeviction"), ("lock.failover-grace", "0")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    facts.replicas = vec![("10.0.0.2:6379".to_owned(), settings.into())];
    assert_eq!(ids(&facts), [("replica-settings", Warning)]);
    assert_eq!(ids(&server(&[], &[("role", "slave")])), [("replica", Danger)]);
    let good = |good| {
        let asks =
            [("min-replicas-to-write", "2"), ("lock.failover-grace", "45000"), ("lock.max-lease", "30000")];
        ids(&server(
            &asks,
            &[("role", "master"), ("connected_slaves", good), ("min_slaves_good_slaves", good)],
        ))
    };
    assert_eq!(good("1"), [("no-replicas", Danger)]);
    assert_eq!(good("2"), []);
}

#[test]
fn clocks_that_are_apart_are_found() {
    let mut facts = server(&[("min-replicas-to-write", "1")], &[("role", "master")]);
    facts.clocks = vec![("10.0.0.2:6379".to_owned(), -700), ("10.0.0.3:6379".to_owned(), 100)];
    assert_eq!(ids(&facts), [("clocks", Danger)]);
}

#[test]
fn however_many_users_there_are_a_finding_is_short() {
    let mut facts = server(&[], &[]);
    let user =
        |number| User { name: format!("app:{number}"), nopass: false, may: vec!["DEL KEY", "SET KEY x"] };
    facts.users = Some((0..7).map(user).collect());
    assert_eq!(
        findings(&facts).remove(0).what,
        "users who may write or delete every key, those of locks too: app:0 (DEL, SET), app:1 (DEL, SET), \
         app:2 (DEL, SET), app:3 (DEL, SET), app:4 (DEL, SET) and 2 more"
    );
}

#[test]
fn what_was_not_checked_is_worse_than_a_warning_and_nothing_is_made_of_it() {
    let unchecked =
        Unchecked { what: "CONFIG GET".to_owned(), why: "NOPERM".to_owned(), mend: "+config|get" };
    let facts = Facts {
        users: Some(vec![User { name: "app".to_owned(), nopass: true, may: vec!["FLUSHALL"] }]),
        unchecked: vec![unchecked],
        ..Facts::default()
    };
    assert_eq!(ids(&facts), [("not-checked", NotChecked), ("writes", Warning)]);
    assert_eq!(ids(&Facts { module: Some(Module::No), ..Facts::default() }), [("no-module", Danger)]);
}
