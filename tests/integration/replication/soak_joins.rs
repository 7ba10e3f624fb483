//! A replica or an AOF that starts in the middle of a random mix gets everything.
//!
//! The module sends nothing while nobody listens, so a change could be lost at the start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::mix::{DATABASES, Mix, long_leases};
use super::soak_replicas::same;
use crate::support::{Client, Server, Setup, figure, size};

/// Nobody has listened so far, so the primary sends its first effects after the first copy.
#[track_caller]
fn joins_a_running_mix(what: &str, join: impl Fn(&Server) -> Server) {
    let rounds = size(1, 20);
    let mut steps = 0;
    for _ in 0..rounds {
        let primary = long_leases().start();
        let mut mix = Mix::new(&primary);
        let began = Instant::now();
        // In this time, the primary finds that nobody listens.
        while began.elapsed() < Duration::from_millis(700) {
            mix.step();
        }
        let first = join(&primary);
        let mut more = mix.rng.below(1000);
        while more > 0 || first.client().info("replication", "master_link_status") != "up" {
            mix.step();
            more = more.saturating_sub(1);
        }
        mix.settle();
        same(&first, &primary, &primary, what);
        steps += mix.steps;
    }
    figure(&format!("a running mix joined by {what}"), format_args!("{rounds} times, {steps} steps"));
}

fn joining(primary: &Server) -> Setup {
    Setup::new().set("replicaof", &format!("127.0.0.1 {}", primary.port()))
}

#[test]
fn the_first_replica_joins_with_a_file() {
    joins_a_running_mix("the first replica, through a file", |primary| {
        primary.client().ask::<()>("CONFIG SET repl-diskless-sync no");
        joining(primary).start()
    });
}

#[test]
fn the_first_replica_joins_without_a_file() {
    joins_a_running_mix("the first replica, through a socket", |primary| {
        primary.client().ask::<()>("CONFIG SET repl-diskless-sync yes");
        joining(primary).set("repl-diskless-load", "swapdb").start()
    });
}

#[test]
fn the_first_replica_joins_over_two_channels() {
    let name = Server::start().client().info("server", "valkey_version");
    if name.is_empty() {
        println!("skipped: the_first_replica_joins_over_two_channels: Valkey only");
        return;
    }
    joins_a_running_mix("the first replica, over two channels", |primary| {
        primary.client().ask::<()>("CONFIG SET dual-channel-replication-enabled yes");
        joining(primary).set("dual-channel-replication-enabled", "yes").start()
    });
}

#[test]
fn a_replica_that_comes_back_joins_from_the_backlog() {
    joins_a_running_mix("a replica that comes back", |primary| {
        let replica = primary.replica();
        replica.client().ask::<()>("CLIENT KILL TYPE MASTER");
        replica
    });
}

/// Returns each key of each database, its expiry, and its value in the server's own encoding.
#[track_caller]
fn everything(client: &mut Client) -> BTreeMap<(usize, String), (i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for db in 0..DATABASES {
        client.ask::<()>(&format!("SELECT {db}"));
        for key in client.ask::<Vec<String>>("KEYS *") {
            let value = (client.ask(&format!("PEXPIRETIME {key}")), client.ask(&format!("DUMP {key}")));
            all.insert((db, key), value);
        }
    }
    all
}

#[test]
fn an_append_only_file_is_turned_on_in_the_middle() {
    let rounds = size(1, 20);
    let mut steps = 0;
    for _ in 0..rounds {
        let mut server = long_leases().set("appendonly", "no").set("appendfsync", "always").start();
        let state = {
            let mut mix = Mix::new(&server);
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(700) {
                mix.step();
            }
            let mut client = server.client();
            client.ask::<()>("CONFIG SET appendonly yes");
            let mut more = 200 + mix.rng.below(1000);
            while more > 0 || client.info("persistence", "aof_rewrite_in_progress") != "0" {
                mix.step();
                more = more.saturating_sub(1);
            }
            mix.settle();
            client.ask::<()>("CONFIG REWRITE");
            steps += mix.steps;
            everything(&mut client)
        };
        server.kill_and_restart();
        let mut client = server.client();
        assert_eq!(client.info("persistence", "aof_enabled"), "1");
        assert_eq!(everything(&mut client), state);
    }
    figure("a running mix, append-only file turned on", format_args!("{rounds} times, {steps} steps"));
}
