//! `LOCK.INFO` tells which connection keeps a grant alive.

use std::collections::HashMap;

use redis::Value;

use crate::support::{Client, Server, convert, wait_for};

fn client_of(client: &mut Client, key: &str) -> (String, i64) {
    let info = client.lock_info(key).unwrap();
    (info["session"].clone(), info["client-id"].parse().unwrap())
}

#[test]
fn it_is_the_connection_that_took_the_session_last() {
    let server = Server::start();
    let (mut client, mut first, mut second) = (server.client(), server.client(), server.client());
    let ids: [i64; 2] = [&mut first, &mut second].map(|session| session.ask("CLIENT ID"));
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    assert_eq!(client_of(&mut client, "k"), ("0".into(), 0));
    first.acquire("k", "OWNER alice PX 600000 ONCE SESSION").unwrap();
    assert_eq!(client_of(&mut client, "k"), ("1".into(), ids[0]));
    second.acquire("k", "OWNER alice PX 600000 ONCE SESSION").unwrap();
    assert_eq!(client_of(&mut client, "k"), ("1".into(), ids[1]));
    client.ask::<i64>(&format!("CLIENT KILL ID {}", ids[1]));
    wait_for("the end of the session", || client.lock_info("k").is_none());
}

#[test]
fn each_of_several_grants_has_its_own() {
    let server = Server::start();
    let (mut client, mut session) = (server.client(), server.client());
    let id: i64 = session.ask("CLIENT ID");
    client.acquire("k", "OWNER alice SHARED PX 600000").unwrap();
    session.acquire("k", "OWNER bob SHARED SESSION PX 600000").unwrap();
    let info: HashMap<String, Value> = client.ask("LOCK.INFO k FULL");
    let grants: Vec<HashMap<String, Value>> = convert(info["grants"].clone());
    let ids: Vec<i64> = grants.iter().map(|grant| convert(grant["client-id"].clone())).collect();
    assert_eq!(ids, [0, id]);
    assert_eq!(client_of(&mut client, "k"), ("0".into(), 0), "the oldest");
}
