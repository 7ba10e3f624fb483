//! How much of the server's memory locks use.

use crate::support::{Server, wait_for};

/// A process uses one channel for all its locks.
#[test]
fn grants_of_one_process_share_the_name_of_its_channel() {
    let [short, long] = [20, 500].map(|length| {
        let (_server, mut client) = Server::and_client();
        let used = |client: &mut crate::support::Client| {
            client.info("memory", "used_memory").parse::<i64>().unwrap()
        };
        let (channel, before) = ("c".repeat(length), used(&mut client));
        for number in 0..1_000 {
            client.acquire(&format!("k{number}"), &format!("OWNER alice NOTIFY {channel}")).unwrap();
        }
        (used(&mut client) - before) / 1_000
    });
    assert!(long < short + 100, "{short} and {long} bytes a grant");
}

#[test]
fn memory_usage_counts_the_value_and_a_long_owner() {
    let (_server, mut client) = Server::and_client();
    client.acquire("uuid1", "").unwrap();
    client.acquire("short", "OWNER alice").unwrap();
    client.acquire("large", &format!("OWNER {}", "x".repeat(128))).unwrap();
    let [uuid, short, large] =
        ["uuid1", "short", "large"].map(|key| client.ask::<i64>(&format!("MEMORY USAGE {key}")));
    // A grant has 24 bytes. Valkey 8.1 counts only these, other servers also their own overhead.
    assert!((24..=200).contains(&uuid), "{uuid}");
    assert!(short > uuid && short < large, "{uuid} {short} {large}");
    assert!((short + 100..=short + 200).contains(&large), "{short} {large}");
}

/// `UNLINK` frees a large value in a background thread, like large values of the server's own types.
#[test]
fn a_lock_with_many_holders_is_freed_in_the_background() {
    let (_server, mut client) = Server::and_client();
    client.acquire("plain", "").unwrap();
    for holder in 0..100 {
        client.acquire("shared", &format!("OWNER reader-{holder} SHARED")).unwrap();
    }
    let freed = |client: &mut crate::support::Client| {
        let info: String = client.ask("INFO memory");
        let line = info.lines().find_map(|line| line.strip_prefix("lazyfreed_objects:")).unwrap();
        line.parse::<i64>().unwrap()
    };
    let before = freed(&mut client);
    assert_eq!(client.ask::<i64>("UNLINK plain"), 1);
    assert_eq!(client.ask::<i64>("UNLINK shared"), 1);
    wait_for("the shared lock to be freed", || freed(&mut client) == before + 1);
}
