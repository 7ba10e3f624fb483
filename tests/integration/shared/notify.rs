//! Places of `NOTIFY` for all kinds, and what several holders hear of their grants.

use redis::Value;

use super::readers;
use crate::support::{Client, grant, heard};

/// Asks for `k` by `NOTIFY ch WANTED`.
#[track_caller]
fn ask(client: &mut Client, owner: &str, options: &str) -> Value {
    client.ask(&format!("LOCK.ACQUIRE k OWNER {owner} ONCE PX 600000 {options} NOTIFY ch WANTED"))
}

#[test]
fn all_hear_of_what_ends_all() {
    for end in [
        "LOCK.BREAK k",
        "DEL k",
        "FLUSHALL",
        "SET k x",
        "RENAME k l",
        "PEXPIRE k 1",
        "SWAPDB 0 1",
        "MOVE k 1",
    ] {
        let (_server, mut client, mut mail) = heard("claim 600000");
        let fences = ["a", "b"].map(|owner| grant(ask(&mut client, owner, "SHARED")).unwrap().fence);
        readers(&mut client, ["silent"]);
        client.ask::<Value>(end);
        let mut told = [mail.next(), mail.next()];
        told.sort();
        assert_eq!(told, [format!("lost {} a", fences[0]), format!("lost {} b", fences[1])], "{end}");
        assert!(mail.rest(&mut client).is_empty(), "{end}");
    }
}
