//! Commands that change nothing break no `WATCH`, count as no change, and are not replicated. Commands that change something do all three.

use redis::Value;

use crate::support::{Client, Server, Setup};

/// Commands that change nothing if alice holds `k` for 600 s, `string` is a string, and `free` does not exist.
const INEFFECTIVE: &[&str] = &[
    "LOCK.ACQUIRE k",
    "LOCK.ACQUIRE k OWNER bob PX 900000",
    "LOCK.ACQUIRE k OWNER bob ONCE",
    "LOCK.ACQUIRE k OWNER alice ONCE",
    "LOCK.ACQUIRE k OWNER alice ONCE PX 1",
    "LOCK.ACQUIRE k OWNER alice NX",
    "LOCK.ACQUIRE free PX 0",
    "LOCK.ACQUIRE free OWNER",
    "LOCK.ACQUIRE string",
    "LOCK.RELEASE k bob",
    "LOCK.RELEASE k bob ALL",
    "LOCK.RELEASE k alice FENCE 1",
    "LOCK.RELEASE k alice NX",
    "LOCK.RELEASE free alice",
    "LOCK.RELEASE string alice",
    "LOCK.EXTEND k bob",
    "LOCK.EXTEND k alice FENCE 1",
    "LOCK.EXTEND k alice PX 0",
    "LOCK.EXTEND free alice",
    "LOCK.EXTEND string alice",
    "LOCK.BREAK free",
    "LOCK.BREAK k FENCE 1",
    "LOCK.BREAK k NX",
    "LOCK.BREAK string",
    "LOCK.INFO k",
    "LOCK.INFO free",
    "LOCK.INFO string",
    "LOCK.MACQUIRE 2 free k OWNER bob",
    "LOCK.MACQUIRE 2 free string OWNER alice",
    "LOCK.MACQUIRE 1 k OWNER alice ONCE PX 1",
    "LOCK.MACQUIRE 2 free free OWNER bob",
    "LOCK.MACQUIRE 1 free OWNER bob PX 0",
    "LOCK.MRELEASE 2 k free bob",
    "LOCK.MRELEASE 1 k alice FENCE 5",
    "LOCK.MRELEASE 2 k string alice",
    "LOCK.MEXTEND 2 k free alice PX 700000",
    "LOCK.MEXTEND 2 k string alice PX 700000",
    "LOCK.MEXTEND 1 k alice FENCE 5 PX 700000",
    "COPY k other",
    "LOCK.APPLY k",
    "LOCK.APPLY free -1,5,1,0,alice",
];

/// Commands that each change the lock, run one after the other; at first alice holds `k` for 600 s with one hold.
const EFFECTIVE: &[&str] = &[
    "LOCK.ACQUIRE k OWNER alice",
    "LOCK.ACQUIRE k OWNER alice PX 700000",
    "LOCK.ACQUIRE k OWNER alice ONCE PX 800000",
    "LOCK.RELEASE k alice",
    "LOCK.EXTEND k alice PX 900000",
    "LOCK.EXTEND k alice PX 500000",
    "LOCK.RELEASE k alice ALL",
    "LOCK.ACQUIRE k OWNER bob",
    "LOCK.MEXTEND 1 k bob PX 700000",
    "LOCK.MRELEASE 1 k bob",
    "LOCK.MACQUIRE 1 k OWNER bob",
    "LOCK.RELEASE k bob",
    "LOCK.ACQUIRE k",
    "LOCK.BREAK k",
];

fn set_up(client: &mut Client) {
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    client.ask::<()>("SET string text");
}

/// Whether the command makes a transaction fail that watches the keys.
fn breaks_a_watch(watcher: &mut Client, actor: &mut Client, line: &str) -> bool {
    watcher.ask::<()>("WATCH k free string");
    let _ = actor.send(line);
    watcher.ask::<()>("MULTI");
    watcher.ask::<()>("PING");
    watcher.ask::<Value>("EXEC") == Value::Nil
}

#[test]
fn a_watch_is_broken_by_what_changes_the_lock_alone() {
    let (_server, [mut watcher, mut actor]) = Server::and_clients();
    set_up(&mut actor);
    for line in INEFFECTIVE {
        assert!(!breaks_a_watch(&mut watcher, &mut actor, line), "{line}");
    }
    for line in EFFECTIVE {
        assert!(breaks_a_watch(&mut watcher, &mut actor, line), "{line}");
    }
    // A change of another key must not break the watch.
    assert!(!breaks_a_watch(&mut watcher, &mut actor, "LOCK.ACQUIRE other"));
}

fn number(client: &mut Client, section: &str, field: &str) -> u64 {
    client.info(section, field).parse().unwrap()
}

fn changes(client: &mut Client) -> u64 {
    number(client, "persistence", "rdb_changes_since_last_save")
}

fn offset(client: &mut Client) -> u64 {
    number(client, "replication", "master_repl_offset")
}

/// Returns a primary that sends only effects (no pings), and its replica.
fn pair() -> (Server, Server) {
    let primary = Setup::new().set("repl-ping-replica-period", "3600").start();
    let replica = primary.replica();
    set_up(&mut primary.client());
    (primary, replica)
}

#[test]
fn what_changes_nothing_is_neither_counted_nor_replicated() {
    let (primary, replica) = pair();
    let mut client = primary.client();
    let before = (changes(&mut client), client.snapshot(), offset(&mut client));
    for line in INEFFECTIVE {
        let _ = client.send(line);
        assert_eq!((changes(&mut client), client.snapshot(), offset(&mut client)), before, "{line}");
    }
    replica.wait_for_sync_with(&primary);
}

#[test]
fn what_changes_a_lock_is_counted_and_only_its_effect_is_replicated() {
    let (primary, replica) = pair();
    let mut client = primary.client();
    for line in EFFECTIVE {
        let before = (changes(&mut client), offset(&mut client));
        client.ask::<Value>(line);
        assert!(changes(&mut client) > before.0 && offset(&mut client) > before.1, "{line}");
    }
    replica.wait_for_sync_with(&primary);
    let stats: String = replica.client().ask("INFO commandstats");
    let mut ours: Vec<_> = stats.lines().filter(|line| line.starts_with("cmdstat_lock.")).collect();
    let applied = ours.pop().unwrap_or_default();
    assert_eq!(ours, [""; 0]);
    // One call for each line, and one for the first acquire.
    let calls = format!("cmdstat_lock.apply:calls={},", EFFECTIVE.len() + 1);
    assert!(applied.starts_with(&calls) && applied.contains(",failed_calls=0"), "{applied}");
}
