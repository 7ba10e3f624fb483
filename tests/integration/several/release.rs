//! `LOCK.MRELEASE`: of each what `LOCK.RELEASE` does; null where it is not held.

use super::{WRONG_TYPE, ask, holds, is_refused};
use crate::support::{HELD_BY_ANOTHER, Server};

#[test]
fn one_of_another_type_refuses_all() {
    let (_server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    client.ask::<()>("SET text any");
    for keys in ["text a b", "a text b", "a b text"] {
        is_refused(&mut client, &format!("LOCK.MRELEASE 3 {keys} alice"), WRONG_TYPE);
        is_refused(&mut client, &format!("LOCK.MEXTEND 3 {keys} alice"), WRONG_TYPE);
        is_refused(&mut client, &ask(keys, "alice", ""), WRONG_TYPE);
        is_refused(&mut client, &ask(keys, "alice", "BLOCK 0"), WRONG_TYPE);
    }
    assert_eq!(client.refused("LOCK.RELEASE a bob"), HELD_BY_ANOTHER);
}
