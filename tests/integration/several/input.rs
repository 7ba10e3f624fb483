//! Wrong words, rights, and what the server knows of the commands.

use std::collections::{HashMap, HashSet};

use redis::Value;

use super::{ask, holds, is_refused};
use crate::support::{Client, Server, Setup, convert, not_positive, syntax_at};

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
fn too_few_words_are_refused() {
    let (_server, mut client) = start();
    for (command, words) in [
        ("lock.macquire", &["", " 1"][..]),
        ("lock.mrelease", &["", " 1", " 1 a"]),
        ("lock.mextend", &["", " 1", " 1 a"]),
    ] {
        for tail in words {
            is_refused(
                &mut client,
                &format!("{command}{tail}"),
                &format!("ERR wrong number of arguments for '{command}' command"),
            );
        }
    }
    for line in ["LOCK.MRELEASE 2 a alice", "LOCK.MEXTEND 2 a alice"] {
        is_refused(&mut client, line, "ERR syntax error, the owner is missing");
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

/// A user without rights to one of them learns nothing of the others and changes nothing.
#[test]
fn rights_to_all_keys_are_needed() {
    let (server, mut client) = start();
    client.ask::<()>("ACL SETUSER guest on nopass +@all ~mine:* %R~readable &mine:*");
    let mut guest = server.client();
    guest.ask::<()>("AUTH guest any");
    let before = client.snapshot();
    for keys in ["mine:a a", "a mine:a", "mine:a free", "mine:a readable", "mine:a mine:b mine:c a"] {
        for line in [
            ask(keys, "alice", ""),
            ask(keys, "alice", "BLOCK 0"),
            format!("LOCK.MRELEASE {} alice", super::counted(keys)),
            format!("LOCK.MEXTEND {} alice", super::counted(keys)),
        ] {
            assert!(guest.refused(&line).starts_with("NOPERM"), "{line}");
            assert_eq!(
                client.send(&format!("ACL DRYRUN guest {line}")).map(|reply| reply == Value::Okay),
                Ok(false),
                "{line}"
            );
        }
    }
    let channel = "NOPERM No permissions to access a channel";
    assert_eq!(guest.refused("LOCK.MACQUIRE 2 mine:a mine:b NOTIFY ch"), channel);
    assert_eq!(client.snapshot(), before);
    holds(&mut guest, "mine:a mine:b", "bob", "NOTIFY mine:ch");
    assert_eq!(guest.ask::<Vec<i64>>("LOCK.MRELEASE 2 mine:b mine:a bob"), [0, 0]);
    client.ask::<()>("ACL SETUSER guest -lock.macquire");
    assert!(guest.refused("LOCK.MACQUIRE 1 mine:a").starts_with("NOPERM"));
}

#[test]
fn the_server_finds_the_keys() {
    let (_server, mut client) = start();
    for (line, keys) in [
        ("LOCK.MACQUIRE 2 x y OWNER alice BLOCK 0", &["x", "y"][..]),
        ("LOCK.MACQUIRE 1 x", &["x"]),
        ("LOCK.MACQUIRE 3 x 7 z SHARED NOTIFY ch", &["x", "7", "z"]),
        ("LOCK.MRELEASE 2 x y alice ALL FENCE 5", &["x", "y"]),
        ("LOCK.MEXTEND 3 x y z alice PX 5", &["x", "y", "z"]),
    ] {
        assert_eq!(client.ask::<Vec<String>>(&format!("COMMAND GETKEYS {line}")), keys, "{line}");
    }
    for line in each("3 x alice") {
        client.refused(&format!("COMMAND GETKEYS {line}"));
    }
}

/// The server shows the commands for several locks as it shows those for one; but they take the longer the more keys they have.
#[test]
fn what_the_server_knows_is_that_of_the_single_ones() {
    let (_server, mut client) = start();
    for (name, several) in [
        ("lock.acquire", "lock.macquire"),
        ("lock.release", "lock.mrelease"),
        ("lock.extend", "lock.mextend"),
    ] {
        let infos: Vec<Vec<Value>> = client.ask(&format!("COMMAND INFO {name} {several}"));
        let [one, other] = &infos[..] else { panic!("{several}") };
        let words = |value: &Value| -> HashSet<String> {
            let words: Vec<String> = convert(value.clone());
            words.into_iter().filter(|word| !["fast", "@fast", "@slow"].contains(&&word[..])).collect()
        };
        let mut flags = words(&other[2]);
        assert!(flags.remove("movablekeys"), "{several}: {flags:?}");
        assert_eq!(flags, words(&one[2]), "{several}");
        assert_eq!(words(&other[6]), words(&one[6]), "{several}: the categories");
        let specs = |info: &[Value]| -> Vec<HashMap<String, Value>> { convert(info[8].clone()) };
        let (one, other) = (specs(one), specs(other));
        assert_eq!((one.len(), other.len()), (1, 1));
        assert_eq!(words(&other[0]["flags"]), words(&one[0]["flags"]), "{several}");
        let shown = |client: &mut Client, words: &str| -> Vec<(String, Vec<String>)> {
            client.ask(&format!("COMMAND GETKEYSANDFLAGS {words}"))
        };
        let (_, flags) = shown(&mut client, &format!("{name} x alice"))[0].clone();
        let expected = [("x".into(), flags.clone()), ("y".into(), flags)];
        assert_eq!(shown(&mut client, &format!("{several} 2 x y alice")), expected);
        let found: HashMap<String, Value> = convert(other[0]["find_keys"].clone());
        assert_eq!(convert::<String>(found["type"].clone()), "keynum", "{several}");
    }
}
