//! The greatest value of `LIMIT`.

use super::holds;
use crate::support::{Server, Setup};

#[test]
fn the_greatest_limit_is_that_of_the_server() {
    let (_server, mut client) = Setup::new().module_args("max-holders 5").start_and_client();
    holds(&mut client, "a", "LIMIT 5");
    let above = "ERR value is out of range, LIMIT must be between 1 and 5 (lock.max-holders)";
    assert_eq!(client.refused("LOCK.ACQUIRE free LIMIT 6"), above);
    client.ask::<()>("CONFIG SET lock.max-holders 6");
    client.acquire("other", "LIMIT 6").unwrap();
}

#[test]
fn without_a_cap_a_limit_has_one_still() {
    let (_server, mut client) = Server::and_client();
    client.ask::<()>("CONFIG SET lock.max-holders 0");
    holds(&mut client, "a", "LIMIT 1000000");
    let error = client.refused("LOCK.ACQUIRE free LIMIT 9223372036854775807");
    assert!(error.starts_with("ERR value is"), "{error}");
}
