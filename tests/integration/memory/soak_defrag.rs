//! Active defragmentation, if the server was built with it: locks are moved in memory, and must not change.

use crate::support::{Client, Server, figure, size, wait_for};

/// Acquires this many locks: with an owner stored in place, with a name in memory of its own, and with a maximum age.
fn fill(client: &mut Client, count: usize) {
    let lines: Vec<String> = (0..count)
        .map(|number| match number % 4 {
            0 => format!("LOCK.ACQUIRE k{number} EX 6000"),
            1 => format!("LOCK.ACQUIRE k{number} EX 6000 MAXHOLD 9000000"),
            2 => format!("LOCK.ACQUIRE k{number} OWNER name{number} EX 6000"),
            _ => format!(
                "LOCK.ACQUIRE k{number} OWNER {} EX 6000 MAXHOLD 8000000",
                "x".repeat(1 + number % 128)
            ),
        })
        .collect();
    client.ask_all::<redis::Value, _>(&lines);
}

fn dumps(client: &mut Client, count: usize) -> Vec<Option<Vec<u8>>> {
    let lines: Vec<String> = (0..count).map(|number| format!("DUMP k{number}")).collect();
    client.ask_all(&lines)
}

fn hits(client: &mut Client) -> u64 {
    client.info("stats", "active_defrag_hits").parse().unwrap()
}

#[test]
fn locks_are_moved_and_stay_what_they_are() {
    let count = size(50_000, 500_000);
    let (_server, mut client) = Server::and_client();
    if let Err(error) = client.send("CONFIG SET activedefrag yes") {
        println!("skipped: locks_are_moved_and_stay_what_they_are: {error}");
        return;
    }
    client.ask::<()>("CONFIG SET activedefrag no");
    fill(&mut client, count);
    // Deletes single locks and whole ranges, so that the memory is fragmented.
    let lines: Vec<String> = (0..count)
        .filter(|number| number % 3 == 0 || number / 500 % 4 == 0)
        .map(|number| format!("LOCK.BREAK k{number}"))
        .collect();
    client.ask_all::<redis::Value, _>(&lines);
    let before = dumps(&mut client, count);
    let left = before.iter().flatten().count();
    let digest: String = client.ask("DEBUG DIGEST");
    for (name, value) in [
        ("active-defrag-ignore-bytes", "1"),
        ("active-defrag-threshold-lower", "0"),
        ("active-defrag-threshold-upper", "1"),
        ("active-defrag-cycle-min", "50"),
        ("active-defrag-cycle-max", "75"),
        ("activedefrag", "yes"),
    ] {
        client.ask::<()>(&format!("CONFIG SET {name} {value}"));
    }
    let enough = left as u64 / 10;
    wait_for("locks to be moved", || hits(&mut client) > enough);
    // Defragmentation is running meanwhile.
    for number in (1..count).step_by(count / 100) {
        let _ = client.send(&format!("LOCK.EXTEND k{number} name{number} EX 6000"));
    }
    client.ask::<()>("CONFIG SET activedefrag no");
    let after = dumps(&mut client, count);
    for (number, (after, before)) in after.iter().zip(&before).enumerate() {
        assert_eq!(after, before, "k{number}");
    }
    assert_eq!(client.ask::<String>("DEBUG DIGEST"), digest);
    let holder = (0..count).find(|number| number % 4 == 2 && before[*number].is_some()).unwrap();
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k{holder} name{holder}")), 0);
    let moved = hits(&mut client);
    client.ask::<()>("FLUSHALL");
    figure("active defragmentation", format_args!("{left} of {count} locks left, {moved} moves"));
}
