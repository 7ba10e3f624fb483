//! A replica serves its clients while it loads a new data set beside the old one (`repl-diskless-load swapdb`).

use crate::support::{Client, Setup, wait_for};

/// The data are about 30 MB; while loading, the server serves its clients every 2 MB.
const KEYS: usize = 3_000;

fn fill(client: &mut Client, value: char) {
    let value = value.to_string().repeat(10_000);
    let sets: Vec<String> = (0..KEYS).map(|key| format!("SET filler{key} {value}")).collect();
    client.ask_all::<(), _>(&sets);
}

/// On a writable replica, clients must not be able to send effects, even while it loads.
#[test]
fn effects_of_clients_are_refused_while_it_loads() {
    let setup = Setup::new()
        .set("repl-diskless-sync", "yes")
        .set("repl-backlog-size", "16384")
        .set("rdbcompression", "no");
    let primary = setup.start();
    let mut there = primary.client();
    fill(&mut there, 'a');
    let held = there.acquire("k", "OWNER alice PX 600000").unwrap();
    let setup = Setup::new().set("repl-diskless-load", "swapdb").set("replica-read-only", "no");
    let replica = primary.replica_with(setup);
    let mut here = replica.client();
    replica.wait_for_sync_with(&primary);
    // Another full copy is loaded slowly: half a millisecond for each key.
    here.ask::<()>("CONFIG SET key-load-delay 500");
    there.ask::<()>("MULTI");
    there.ask::<()>("CLIENT KILL TYPE replica");
    there.ask::<()>(&format!("SET filler0 {}", "b".repeat(100_000)));
    there.ask::<redis::Value>("EXEC");
    wait_for("the copy to be loaded", || here.info("persistence", "async_loading") == "1");
    let mut looks = 0;
    while here.info("persistence", "async_loading") == "1" {
        assert_eq!(here.refused("LOCK.APPLY k"), "ERR this command is the module's own and not for clients");
        assert_eq!(here.holder("k").unwrap().fence, held.fence, "the data set in use is served");
        looks += 1;
    }
    assert!(looks > 1);
    replica.wait_for_sync_with(&primary);
    // Effects that arrived during the load, and later ones, must both be applied.
    assert_eq!(here.holder("k").unwrap().fence, held.fence);
    there.ask::<()>("LOCK.RELEASE k alice");
    replica.wait_for_sync_with(&primary);
    assert_eq!(here.holder("k"), None);
}
