//! Many clients that take, wait for and lose any locks together: no lock is ever with two, and in the end nothing is left.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::scope;

use redis::Value;

use super::{ask, count, grants, holds};
use crate::support::{Client, Rng, Server, Setup, blocked_clients, wait_for};

const KEYS: usize = 6;
const CLIENTS: usize = 12;
const TURNS: usize = 80;

/// Who is inside each lock: a writer counts as many as there may ever be readers.
static INSIDE: [AtomicI64; KEYS] = [const { AtomicI64::new(0) }; KEYS];
const WRITER: i64 = 1000;

/// Some of the locks, in any order.
fn some(rng: &mut Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..KEYS).collect();
    let count = 1 + rng.below(4);
    (0..count).map(|_| all.remove(rng.below(all.len()))).collect()
}

/// Enters them, and leaves them.
fn go_through(keys: &[usize], shared: bool) {
    let weight = if shared { 1 } else { WRITER };
    for key in keys {
        let before = INSIDE[*key].fetch_add(weight, Ordering::SeqCst);
        assert!(if shared { before < WRITER } else { before == 0 }, "k{key}: {before} inside");
    }
    for key in keys {
        INSIDE[*key].fetch_sub(weight, Ordering::SeqCst);
    }
}

/// One turn of a client: a wait that ends in any way.
fn turn(server: &Server, client: &mut Client, rng: &mut Rng, owner: &str) {
    let keys = some(rng);
    let names: Vec<_> = keys.iter().map(|key| format!("k{key}")).collect();
    let names = names.join(" ");
    let shared = rng.below(3) == 0;
    let room = if shared { "SHARED" } else { "" };
    let release = format!("LOCK.MRELEASE {} {names} {owner}", keys.len());
    match rng.below(8) {
        // It goes away while it waits, or just after it was granted.
        0 => {
            let mut gone = server.client();
            gone.begin(&ask(&names, &format!("{owner}-gone"), &format!("{room} SESSION BLOCK 0")));
        }
        1 => {
            let id: i64 = client.ask("CLIENT ID");
            let mut other = server.client();
            client.begin(&ask(&names, owner, &format!("{room} BLOCK 0")));
            other.send(&format!("CLIENT UNBLOCK {id}")).unwrap();
            if let Some(all) = grants(client.finish().unwrap()) {
                assert_eq!(all.holds, vec![1; keys.len()]);
                go_through(&keys, shared);
                client.ask::<Value>(&release);
            }
        }
        2 => {
            let single = format!("LOCK.ACQUIRE k{} OWNER {owner} PX 600000 {room} BLOCK 0", keys[0]);
            client.ask::<Vec<Value>>(&single);
            go_through(&keys[..1], shared);
            assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k{} {owner}", keys[0])), 0);
        }
        way => {
            let block = if way < 5 { format!("BLOCK {}", 1 + rng.below(20)) } else { "BLOCK 0".into() };
            if let Some(all) = grants(client.ask(&ask(&names, owner, &format!("{room} {block}")))) {
                assert_eq!(all.fences, vec![all.fences[0]; keys.len()]);
                go_through(&keys, shared);
                assert_eq!(client.ask::<Vec<i64>>(&release), vec![0; keys.len()]);
            } else {
                assert!(way < 5, "null without a timeout");
            }
        }
    }
}

#[test]
fn no_two_inside_and_nothing_left() {
    let server = Setup::new().start();
    let mut rng = Rng::new();
    scope(|scope| {
        for number in 0..CLIENTS {
            let (server, mut rng) = (&server, rng.fork());
            scope.spawn(move || {
                let mut client = server.client();
                for _ in 0..TURNS {
                    turn(server, &mut client, &mut rng, &format!("o{number}"));
                }
            });
        }
    });
    let mut client = server.client();
    wait_for("nobody to wait", || count(&mut client, "lock_waiters") == 0);
    wait_for("nothing to be held", || client.ask::<i64>("DBSIZE") == 0);
    assert_eq!((blocked_clients(&mut client), count(&mut client, "lock_sessions")), (0, 0));
    holds(&mut client, "k0 k1 k2 k3 k4 k5", "last", "");
}
