//! `LOCK.BREAK`, with which an operator ends a grant.

use crate::support::Server;

#[test]
fn the_log_says_who_broke_what() {
    let (server, mut client) = Server::and_client();
    let fence = client.acquire("jobs:42", "OWNER alice LABEL nightly").unwrap().fence;
    client.ask::<()>("ACL SETUSER admin on nopass +@all ~*");
    client.ask::<()>("AUTH admin any");
    let id: i64 = client.ask("CLIENT ID");
    client.ask::<()>("LOCK.BREAK jobs:42");
    let log = server.log();
    let line = log.lines().find(|line| line.contains("lock broken")).expect("a line in the log");
    let said =
        format!("lock broken: owner \"alice\" (nightly), fence {fence}, by client id={id} addr=127.0.0.1:");
    assert!(line.contains(&said), "{line}");
    assert!(line.ends_with(" user=admin, key \"jobs:42\""), "{line}");
}

/// The log has no address for a script, whose commands come from a client without a connection.
#[test]
fn a_break_in_a_script_or_a_transaction_works_and_is_logged() {
    let (server, mut client) = Server::held();
    let script = "return redis.call('LOCK.BREAK', KEYS[1])";
    assert_eq!(client.ask_words::<i64, _>(["EVAL", script, "1", "k"]), 1);
    client.acquire("k", "OWNER bob").unwrap();
    client.ask::<()>("MULTI");
    client.ask::<()>("LOCK.BREAK k");
    assert_eq!(client.ask::<[i64; 1]>("EXEC"), [1]);
    let log = server.log();
    for (owner, who) in [("alice", "by a script, key \"k\""), ("bob", "by client id=")] {
        let said = format!("lock broken: owner \"{owner}\", fence ");
        let lines: Vec<_> = log.lines().filter(|line| line.contains(&said)).collect();
        assert_eq!(lines.len(), 1, "{log}");
        assert!(lines[0].contains(who), "{log}");
    }
}
