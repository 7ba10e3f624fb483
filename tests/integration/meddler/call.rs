//! Another module runs a command without a user.

use super::setup;
use crate::support::Waiter;

/// The error would name keys and owners to a caller whose rights are unknown.
#[test]
fn a_circle_is_told_to_nobody() {
    let (server, mut client) = setup().start_and_client();
    client.acquire("as", "OWNER a PX 600000").unwrap();
    client.acquire("bs", "OWNER b PX 600000").unwrap();
    let _waiter = Waiter::new(&server, "bs", "OWNER a");
    let told: String = client.ask("MEDDLE.CALL LOCK.ACQUIRE as OWNER b BLOCK 5000 DETECT");
    if client.version() < (7, 2) {
        // On this server, commands that modules run can't wait.
        assert_eq!(told, "*-1");
        return;
    }
    let circle = "b waits for a lock held by somebody, somebody waits for a lock held by b";
    assert_eq!(told, format!("-DEADLOCK this wait would never end: {circle}"));
}

/// Without a connection there is nothing that could keep the session alive, and no address for the log.
#[test]
fn a_session_is_refused_where_there_is_no_connection() {
    let (server, mut client) = setup().start_and_client();
    for (line, told) in [
        ("LOCK.ACQUIRE k OWNER a SESSION", "-ERR SESSION is not allowed in scripts"),
        ("LOCK.ACQUIRE k OWNER a NOTIFY c BLOCK 0", "-ERR NOTIFY is not allowed in scripts"),
        ("LOCK.BREAK held", ":1"),
    ] {
        client.acquire("held", "OWNER b ONCE PX 600000").unwrap();
        assert_eq!(client.ask::<String>(&format!("MEDDLE.CALL {line}")), told, "{line}");
    }
    assert!(server.log().contains("lock broken: owner \"b\""), "{}", server.log());
    assert!(server.log().contains("by the server itself, key \"held\""), "{}", server.log());
}
