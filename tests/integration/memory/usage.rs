//! What locks take of the server's memory.

use crate::support::Server;

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
