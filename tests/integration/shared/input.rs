//! Wrong words about room: each has its own error, and nothing changes.

use super::{holds, readers};
use crate::support::{Client, Server, Setup, no_integer, not_positive};

#[track_caller]
fn are_refused(client: &mut Client, cases: &[(&str, &str)]) {
    let before = client.snapshot();
    for (line, error) in cases {
        assert_eq!(client.refused(line), *error, "{line}");
    }
    assert_eq!(client.snapshot(), before);
}

#[test]
fn a_limit_out_of_range_is_refused() {
    let (_server, mut client) = Server::and_client();
    readers(&mut client, ["a"]);
    let range = "LIMIT must be between 1 and 1000 (lock.max-holders)";
    let (above, no_integer) = (&*format!("ERR value is out of range, {range}"), &*no_integer(range));
    let not_positive = &*not_positive(range);
    are_refused(
        &mut client,
        &[
            ("LOCK.ACQUIRE free LIMIT 0", not_positive),
            ("LOCK.ACQUIRE free LIMIT -1", not_positive),
            ("LOCK.ACQUIRE free LIMIT -9223372036854775808", not_positive),
            ("LOCK.ACQUIRE free LIMIT x", no_integer),
            ("LOCK.ACQUIRE free LIMIT 3.5", no_integer),
            ("LOCK.ACQUIRE free LIMIT +3", no_integer),
            ("LOCK.ACQUIRE free LIMIT 9223372036854775808", no_integer),
            ("LOCK.ACQUIRE free LIMIT 1001", above),
            ("LOCK.ACQUIRE k OWNER a LIMIT 1001", above),
            ("LOCK.ACQUIRE free LIMIT 9223372036854775807", above),
        ],
    );
    holds(&mut client, "b", "limit 1000");
    holds(&mut client, "c", "Shared");
}

#[test]
fn the_greatest_limit_is_that_of_the_server() {
    let (_server, mut client) = Setup::new().module_args("max-holders 5").start_and_client();
    holds(&mut client, "a", "LIMIT 5");
    let above = "ERR value is out of range, LIMIT must be between 1 and 5 (lock.max-holders)";
    are_refused(&mut client, &[("LOCK.ACQUIRE free LIMIT 6", above)]);
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
