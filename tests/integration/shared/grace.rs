//! `lock.failover-grace` where a lock is held and has room: nothing new is granted before its end, and all that fits then.

use super::{holds, readers, release};
use crate::support::{Client, Server, grant, transaction};

const GRACE: &str = "GRACE new grants resume in ";

/// A server with two locks that were read before its grace began.
fn in_grace(ms: i64) -> Server {
    let (server, mut client) = Server::and_client();
    readers(&mut client, ["a", "b"]);
    client.acquire("l", "OWNER a SHARED PX 600000").unwrap();
    client.ask::<()>(&format!("CONFIG SET lock.failover-grace {ms}"));
    server
}

#[test]
fn holders_go_on_and_nobody_comes() {
    let server = in_grace(600_000);
    let mut client = server.client();
    assert_eq!(holds(&mut client, "a", "SHARED").holds, 2);
    // Of an upgrade that was lost, the owner would learn nothing by that: it has to ask again.
    assert!(
        client.refused("LOCK.EXTEND k b PX 700000").starts_with("GRACE leases can be extended again in ")
    );
    assert_eq!(holds(&mut client, "b", "SHARED ONCE PX 700000").lease, 700_000);
    let before = client.snapshot();
    for line in ["LOCK.ACQUIRE k OWNER c SHARED", "LOCK.ACQUIRE k OWNER c LIMIT 3", "LOCK.ACQUIRE l OWNER a"]
    {
        assert!(client.refused(line).starts_with(GRACE), "{line}");
        assert!(transaction(&mut client, &[line])[0].clone().unwrap_err().starts_with(GRACE), "{line}");
    }
    assert_eq!(client.acquire("k", "OWNER c"), None, "it would not fit anyway");
    assert_eq!(client.snapshot(), before);
    assert_eq!(release(&mut client, "b"), 0);
    assert_eq!(client.held_by("k", "a").unwrap().limit, 0);
}

/// A grace that ends by itself lets in who fits, and nothing else has to happen.
#[test]
fn its_end_lets_in_who_fits() {
    let server = in_grace(6000);
    let begin = |line: &str| {
        let mut client: Client = server.client();
        client.begin(line);
        client
    };
    let mut asked = [
        begin("LOCK.ACQUIRE k OWNER c SHARED PX 600000 BLOCK 0"),
        begin("LOCK.ACQUIRE k OWNER d LIMIT 4 PX 600000 BLOCK 0"),
        begin("LOCK.ACQUIRE l OWNER a PX 600000 BLOCK 0"),
        begin("LOCK.ACQUIRE free OWNER a SHARED PX 600000 BLOCK 0"),
    ];
    let holds = asked.each_mut().map(|client| grant(client.finish().unwrap()).expect("a grant").holds);
    assert_eq!(holds, [1, 1, 2, 1]);
    let mut client = server.client();
    assert_eq!(client.holders("k").len(), 4);
    assert_eq!(client.held_by("l", "a").unwrap().limit, 1);
}
