//! What locks take of the server's memory, and that it is given back.

use crate::support::{Client, Server, wait_for};

#[test]
fn memory_usage_counts_the_value_and_a_long_owner() {
    let (_server, mut client) = Server::and_client();
    client.acquire("uuid1", "").unwrap();
    client.acquire("short", "OWNER alice").unwrap();
    client.acquire("large", &format!("OWNER {}", "x".repeat(128))).unwrap();
    let [uuid, short, large] =
        ["uuid1", "short", "large"].map(|key| client.ask::<i64>(&format!("MEMORY USAGE {key}")));
    // A grant is 24 bytes; Valkey 8.1 counts no more than that, others what the server has around it.
    assert!((24..=200).contains(&uuid), "{uuid}");
    assert!(short > uuid && short < large, "{uuid} {short} {large}");
    assert!((short + 100..=short + 200).contains(&large), "{short} {large}");
}

#[test]
fn what_is_freed_goes_back_to_the_servers_memory() {
    const LOCKS: i64 = 20_000;
    let (_server, mut client) = Server::and_client();
    let used = |client: &mut Client| client.info("memory", "used_memory").parse::<i64>().unwrap();
    let owner = "x".repeat(100);
    let before = used(&mut client);
    for _ in 0..2 {
        for number in 0..LOCKS {
            client.begin(&format!("LOCK.ACQUIRE k{number} OWNER {owner}"));
        }
        for _ in 0..LOCKS {
            client.finish().unwrap();
        }
        assert!(used(&mut client) > before + LOCKS * 100);
        for number in 0..LOCKS {
            client.begin(&format!("LOCK.RELEASE k{number} {owner}"));
        }
        for _ in 0..LOCKS {
            client.finish().unwrap();
        }
    }
    wait_for("the memory to be given back", || used(&mut client) < before + LOCKS * 30);
}
