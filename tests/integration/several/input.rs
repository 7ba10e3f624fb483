//! Wrong words. What the server knows of the commands is in `docs::definition`, rights are in `security::acl`.

use super::{holds, is_refused};
use crate::support::{Client, Server, Setup, not_positive, syntax_at};

const NUM_KEYS: &str = "ERR numkeys should be greater than 0";
const TOO_FEW: &str = "ERR Number of keys can't be greater than number of args";
const TWICE: &str = "ERR a key is named twice";

/// Refused by each of the three.
fn each(tail: &str) -> [String; 3] {
    ["LOCK.MACQUIRE", "LOCK.MRELEASE", "LOCK.MEXTEND"].map(|command| format!("{command} {tail}"))
}

fn start() -> (Server, Client) {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    (server, client)
}

#[test]
fn a_wrong_number_of_keys_is_refused() {
    let (_server, mut client) = start();
    for (tail, error) in [
        ("0 a alice", NUM_KEYS),
        ("-1 a alice", NUM_KEYS),
        ("x a alice", NUM_KEYS),
        ("1.0 a alice", NUM_KEYS),
        ("+1 a alice", NUM_KEYS),
        ("01 a alice", NUM_KEYS),
        ("9223372036854775808 a alice", NUM_KEYS),
        ("3 a alice", TOO_FEW),
        ("9223372036854775807 a alice", TOO_FEW),
        ("4294967297 a alice", TOO_FEW),
        ("2 a a alice", TWICE),
        ("4 a b c a alice", TWICE),
    ] {
        for line in each(tail) {
            is_refused(&mut client, &line, error);
        }
    }
}

#[test]
fn wrong_options_of_several_are_refused() {
    let (_server, mut client) = start();
    let fence = "FENCE must be between 1 and 9223372036854775807";
    let expire = |command: &str| format!("ERR invalid expire time in 'lock.{command}' command");
    for (line, error) in [
        ("LOCK.MACQUIRE 2 c d alice", &*syntax_at("alice")),
        ("LOCK.MACQUIRE 1 c d OWNER alice", &syntax_at("d")),
        ("LOCK.MACQUIRE 2 c d FENCE 3", &syntax_at("FENCE")),
        ("LOCK.MACQUIRE 2 c d ALL", &syntax_at("ALL")),
        ("LOCK.MACQUIRE 2 c d PX 0", &expire("macquire")),
        ("LOCK.MRELEASE 2 a alice", "ERR syntax error, the owner is missing"),
        ("LOCK.MEXTEND 2 a alice", "ERR syntax error, the owner is missing"),
        ("LOCK.MRELEASE 2 a b alice EX 3", &syntax_at("EX")),
        ("LOCK.MRELEASE 2 a b alice FENCE 0", &not_positive(fence)),
        ("LOCK.MEXTEND 2 a b alice ALL", &syntax_at("ALL")),
        ("LOCK.MEXTEND 2 a b alice PX 0", &expire("mextend")),
        ("LOCK.MEXTEND 2 a b alice FENCE -5", &not_positive(fence)),
    ] {
        is_refused(&mut client, line, error);
    }
    let long = "x".repeat(129);
    let error = "ERR owner must be 1 to 128 bytes long";
    for line in [
        format!("LOCK.MACQUIRE 2 c d OWNER {long}"),
        format!("LOCK.MRELEASE 2 a b {long}"),
        format!("LOCK.MEXTEND 2 a b {long}"),
    ] {
        is_refused(&mut client, &line, error);
    }
    assert_eq!(
        super::grants(
            client.ask("lock.macquire 2 c d once px 5000 owner OWNER session maxhold 9000 block 0 shared")
        )
        .unwrap()
        .owner,
        "OWNER"
    );
}

#[test]
fn at_most_a_hundred_where_nobody_allows_more() {
    let (_server, mut client) = Setup::new().shipped().start_and_client();
    let names = |count: usize| (0..count).map(|n| format!("k{n}")).collect::<Vec<_>>().join(" ");
    for line in each(&format!("101 {} alice", names(101))) {
        is_refused(&mut client, &line, "ERR at most 100 keys are allowed (lock.max-keys)");
    }
    assert_eq!(holds(&mut client, &names(100), "alice", "").holds, [1; 100]);
}
