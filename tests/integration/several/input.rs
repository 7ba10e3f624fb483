//! The most keys of a command, and options in any case and order. `input::words` tests what is refused.

use super::{grants, holds, is_refused};
use crate::support::{Server, Setup};

#[test]
fn options_of_several_are_taken_in_any_case_and_order() {
    let (_server, mut client) = Server::and_client();
    let line = "lock.macquire 2 c d once px 5000 owner OWNER session maxhold 9000 block 0 shared";
    assert_eq!(grants(client.ask(line)).unwrap().owner, "OWNER");
}

#[test]
fn at_most_a_hundred_where_nobody_allows_more() {
    let (_server, mut client) = Setup::new().shipped().start_and_client();
    let names = |count: usize| (0..count).map(|n| format!("k{n}")).collect::<Vec<_>>().join(" ");
    for command in ["LOCK.MACQUIRE", "LOCK.MRELEASE", "LOCK.MEXTEND"] {
        let line = format!("{command} 101 {} alice", names(101));
        is_refused(&mut client, &line, "ERR at most 100 keys are allowed (lock.max-keys)");
    }
    assert_eq!(holds(&mut client, &names(100), "alice", "").holds, [1; 100]);
}
