//! After a long mix of all commands, replicas of every kind have the same data as their primary, and have received only effects.

use std::collections::BTreeMap;

use super::mix::{DATABASES, Mix, long_leases};
use crate::support::{Server, Setup, figure, size};

/// The commands that replicas may receive: the effects of lock commands, and the server's own commands.
// `copy` is only of strings, because a lock can't be copied.
const EFFECTS: [&str; 17] = [
    "lock.apply",
    "del",
    "copy",
    "unlink",
    "pexpireat",
    "persist",
    "rename",
    "move",
    "set",
    "flushdb",
    "flushall",
    "swapdb",
    "select",
    "multi",
    "exec",
    "ping",
    "publish",
];

/// Commands that the tests themselves send to a replica.
const OURS: [&str; 15] = [
    "quit",
    "client|kill",
    "config|get",
    "psync",
    "config|set",
    "lock.info",
    "info",
    "debug",
    "keys",
    "pexpiretime",
    "client|setinfo",
    "replicaof",
    "replconf",
    "flushall",
    "hello",
];

/// Returns how often the server has run each command.
fn calls(server: &Server) -> BTreeMap<String, i64> {
    let text: String = server.client().ask("INFO commandstats");
    let lines = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
    let calls = lines.map(|(name, rest)| (name.into(), rest.split(',').next().unwrap().parse().unwrap()));
    calls.collect()
}

#[track_caller]
pub(crate) fn same(replica: &Server, of: &Server, primary: &Server, name: &str) {
    replica.wait_for_sync_with(of);
    let (mut here, mut there) = (replica.client(), primary.client());
    let (is, expected): (String, String) = (here.ask("DEBUG DIGEST"), there.ask("DEBUG DIGEST"));
    for db in 0..DATABASES {
        here.ask::<()>(&format!("SELECT {db}"));
        there.ask::<()>(&format!("SELECT {db}"));
        assert_eq!(here.snapshot().leases, there.snapshot().leases, "{name}, database {db}");
        for (key, _) in there.snapshot().leases {
            let key = String::from_utf8(key).unwrap();
            let holders = [&mut here, &mut there].map(|client| {
                let info = client.send(&format!("LOCK.INFO {key}"));
                info.map(|info| redis::from_redis_value::<Vec<redis::Value>>(info).unwrap()[..6].to_vec())
            });
            assert_eq!(holders[0], holders[1], "{name}: {key}");
        }
    }
    assert_eq!(is, expected, "{name}");
    for (command, calls) in calls(replica) {
        let known = EFFECTS.contains(&&command[..]) || OURS.contains(&&command[..]);
        assert!(known, "{name} was sent {command}, {calls} times");
    }
}

#[test]
fn a_replica_has_what_its_primary_has_after_random_commands() {
    let (rounds, steps) = size((1, 2_000), (10, 30_000));
    let (mut total, mut granted, mut told) = (0, 0, 0);
    for _ in 0..rounds {
        let primary = long_leases().start();
        let first = primary.replica();
        let second = first.replica();
        let swapping = primary.replica_with(Setup::new().set("repl-diskless-load", "swapdb"));
        let mut mix = Mix::new(&primary);
        let mut late = Vec::new();
        for step in 0..steps {
            mix.step();
            if step % 150 == 149 {
                // A difference may be gone after a while.
                mix.settle();
                same(&first, &primary, &primary, "the replica");
                same(&second, &first, &primary, "the replica's replica");
            }
            if step == steps / 4 {
                swapping.client().ask::<()>("REPLICAOF NO ONE");
                swapping.client().ask::<()>("SET other text");
                swapping.client().ask::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
            } else if step == steps / 3 || step == steps / 2 {
                let diskless = if step == steps / 3 { "yes" } else { "no" };
                primary.client().ask::<()>(&format!("CONFIG SET repl-diskless-sync {diskless}"));
                late.push(Setup::new().set("replicaof", &format!("127.0.0.1 {}", primary.port())).start());
            }
        }
        mix.settle();
        same(&first, &primary, &primary, "the replica");
        same(&second, &first, &primary, "the replica's replica");
        same(&swapping, &primary, &primary, "the replica that swaps databases");
        for late in &late {
            same(late, &primary, &primary, "a replica that joined in the middle");
        }
        total += mix.steps;
        granted += mix.granted;
        told += calls(&first)["lock.apply"];
    }
    assert!(granted > 0 && told > 0);
    figure(
        "replicas after a random mix",
        format_args!("{rounds} x 5 replicas, {total} steps, {granted} waiters granted, {told} effects told"),
    );
}
