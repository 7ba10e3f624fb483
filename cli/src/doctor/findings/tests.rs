//! Reports of servers, and the findings for them.

use super::*;

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
        module: Some(VERSION),
        settings: Some(own(&right).into_iter().chain(own(changed)).collect()),
        info: own(info).into_iter().collect(),
        users: Some(vec!["user default on nopass ~* &* +@all".to_owned()]),
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
    assert_eq!(of(&both), []);
    assert_eq!(ids(&server(&[], &[("role", "slave")])), [("replica", Danger)]);
}

#[test]
fn clocks_that_are_apart_are_found() {
    let mut facts = server(&[("min-replicas-to-write", "1")], &[("role", "master")]);
    facts.clocks = vec![("10.0.0.2:6379".to_owned(), -700), ("10.0.0.3:6379".to_owned(), 100)];
    assert_eq!(ids(&facts), [("clocks", Danger)]);
}

#[test]
fn users_who_may_break_locks_are_found() {
    let mut facts = server(&[], &[]);
    let of = |line: &str, facts: &mut Facts| {
        facts.users = Some(vec![line.to_owned()]);
        ids(facts)
    };
    assert_eq!(of("user app on #00 ~app:* resetchannels -@all +@lock -lock.break", &mut facts), []);
    assert_eq!(of("user app on #00 ~* &* +@all", &mut facts), [("break", Warning), ("writes", Warning)]);
    assert_eq!(of("user app on #00 ~* &* +@all -@dangerous", &mut facts), [("writes", Warning)]);
    assert_eq!(of("user app off #00 ~* &* +@all", &mut facts), []);
}

#[test]
fn what_may_not_be_asked_is_said_and_nothing_is_made_of_it() {
    let facts = Facts {
        module: Some(VERSION),
        unknown: vec![("CONFIG GET", "NOPERM".to_owned())],
        ..Facts::default()
    };
    assert_eq!(ids(&facts), [("unknown", Unknown)]);
    assert_eq!(ids(&Facts::default()), [("no-module", Danger)]);
}
