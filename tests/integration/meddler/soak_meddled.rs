//! A random mix of commands on locks, while another module runs any commands on their keys in any event. `scripts/leaks` runs this to find
//! invalid memory accesses. The long form: `scripts/soak meddled`.

use super::server;
use crate::support::{Client, Rng, figure, size};

/// The commands of the other module. Server commands with two keys are run only by it, because some (`MOVE`) use the first key after the
/// second one has expired, whatever happened to the first in that event.
const LINES: [&str; 14] = [
    "DEL k1",
    "DEL k2",
    "UNLINK k0",
    "RENAME k3 k4",
    "RENAME k1 k0",
    "MOVE k2 1",
    "PEXPIRE k5 -1",
    "SET k4 text PX 1",
    "LOCK.ACQUIRE k0 OWNER eve PX 1",
    "LOCK.MACQUIRE 2 k1 k2 OWNER eve PX 1",
    "LOCK.BREAK k3",
    "LOCK.INFO k4 FULL",
    "FLUSHDB",
    "SWAPDB 0 1",
];

fn line(rng: &mut Rng) -> String {
    let key = rng.below(6);
    let (second, third) = ((key + 1) % 6, (key + 3) % 6);
    let owner = *rng.one_of(&["alice", "bob", "a-name-that-is-longer-than-any-other-here"]);
    let room = *rng.one_of(&["", "SHARED", "LIMIT 2"]);
    let lease = *rng.one_of(&["1", "3", "600000"]);
    let keys = format!("3 k{key} k{second} k{third}");
    match rng.below(12) {
        0..3 => format!("LOCK.ACQUIRE k{key} OWNER {owner} PX {lease} {room}"),
        3..6 => format!("LOCK.MACQUIRE {keys} OWNER {owner} PX {lease} {room}"),
        6 => format!("LOCK.RELEASE k{key} {owner}"),
        7 => format!("LOCK.MRELEASE {keys} {owner} ALL"),
        8 => format!("LOCK.MEXTEND {keys} {owner} PX {lease}"),
        9 => format!("LOCK.BREAK k{key}"),
        10 => format!("DEL k{key}"),
        _ => format!("LOCK.EXTEND k{key} {owner} PX {lease}"),
    }
}

#[test]
fn soak_meddled() {
    let (server, mut client) = server();
    let mut rng = Rng::new();
    let mut words: Vec<String> = vec!["MEDDLE.MIX".into(), rng.below(1 << 30).to_string(), "30".into()];
    words.extend(LINES.map(String::from));
    client.ask_words::<(), _>(words);
    let mut waiters: Vec<Client> = Vec::new();
    for _ in 0..size(3_000, 100_000) {
        let line = line(&mut rng);
        if line.contains("ACQUIRE") && rng.percent(20) {
            let mut waiter = server.client();
            let more = *rng.one_of(&["", "DETECT", "SESSION"]);
            waiter.begin(&format!("{line} BLOCK {} {more}", 1 + rng.below(20)));
            waiters.push(waiter);
        } else {
            let _ = client.send(&line);
        }
        if waiters.len() > 8 {
            let mut waiter = waiters.swap_remove(rng.below(waiters.len()));
            // The other waiters close their connections, answered or not.
            if rng.percent(70) {
                let _ = waiter.finish();
            }
        }
    }
    figure("commands of the other module", client.ask::<i64>("MEDDLED"));
    // All waits must end.
    client.ask::<()>("MEDDLE.MIX 1 0");
    for mut waiter in waiters {
        let _ = waiter.finish();
    }
}
