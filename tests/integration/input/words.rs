//! Wrong input: each kind has its own error, and nothing changes.

use crate::support::Server;

const SYNTAX: &str = "ERR syntax error";
const NO_INTEGER: &str = "ERR value is not an integer or out of range";
const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
const OWNER_LENGTH: &str = "ERR owner must be 1 to 128 bytes long";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const BAD_LEASE_ACQUIRE: &str = "ERR invalid expire time in 'lock.acquire' command";
const BAD_LEASE_EXTEND: &str = "ERR invalid expire time in 'lock.extend' command";

/// Sends each line to a server where alice holds `held`, `free` is free, and `string` and `list` are of other types.
#[track_caller]
fn each_is_refused<L: AsRef<str>>(cases: impl IntoIterator<Item = (L, &'static str)>) {
    let (_server, mut client) = Server::and_client();
    client.ask::<()>("SET string text");
    client.ask::<()>("RPUSH list item");
    client.acquire("held", "OWNER alice PX 600000").unwrap();
    let before = client.snapshot();
    for (line, error) in cases {
        let line = line.as_ref();
        // `''` is an empty word, `_` a blank in a word.
        let words =
            line.split(' ').map(|word| if word == "''" { String::new() } else { word.replace('_', " ") });
        assert_eq!(client.send_words(words), Err(error.into()), "{line}");
    }
    assert_eq!(client.snapshot(), before);
}

#[test]
fn an_unknown_word() {
    each_is_refused([
        ("LOCK.ACQUIRE free NX", SYNTAX),
        ("LOCK.ACQUIRE free ''", SYNTAX),
        ("LOCK.ACQUIRE free alice", SYNTAX),
        ("LOCK.ACQUIRE free OWNER alice 5", SYNTAX),
        ("LOCK.ACQUIRE free OWNERS alice", SYNTAX),
        ("LOCK.ACQUIRE free P 5", SYNTAX),
        ("LOCK.ACQUIRE free PX_ 5", SYNTAX),
        ("LOCK.ACQUIRE held OWNER alice ALL", SYNTAX),
        ("LOCK.ACQUIRE held OWNER alice FENCE 5", SYNTAX),
        ("LOCK.RELEASE held alice PX 5", SYNTAX),
        ("LOCK.RELEASE held alice bob", SYNTAX),
        ("LOCK.RELEASE held alice ONCE", SYNTAX),
        ("LOCK.RELEASE held alice SESSION", SYNTAX),
        ("LOCK.RELEASE held alice BLOCK 0", SYNTAX),
        ("LOCK.EXTEND held alice BLOCK 0", SYNTAX),
        ("LOCK.MACQUIRE 2 held free OWNER alice LABEL", SYNTAX),
        ("LOCK.MACQUIRE 1 free OWNER bob BLOCK 0 NOTIFY ch START 1", SYNTAX),
        ("LOCK.EXTEND held alice 5000", SYNTAX),
        ("LOCK.EXTEND held alice ALL", SYNTAX),
        ("LOCK.BREAK held alice", SYNTAX),
        ("LOCK.BREAK held ALL", SYNTAX),
        ("LOCK.INFO held ALL", SYNTAX),
        ("LOCK.INFO held FULL FULL", SYNTAX),
    ]);
}

#[test]
fn an_option_without_its_value_twice_or_out_of_range() {
    const NO_TIMEOUT: &str = "ERR timeout is not an integer or out of range";
    let long = format!("LABEL {}", "x".repeat(129));
    each_is_refused(["held", "free"].iter().flat_map(|key| {
        [
            ("BLOCK -1", "ERR timeout is negative"),
            ("BLOCK -9223372036854775808", "ERR timeout is negative"),
            ("BLOCK soon", NO_TIMEOUT),
            ("BLOCK 1.5", NO_TIMEOUT),
            ("BLOCK 9007199254740992", NO_TIMEOUT),
            ("BLOCK 9223372036854775808", NO_TIMEOUT),
            ("BLOCK", SYNTAX),
            ("BLOCK 10 block 0", SYNTAX),
            ("SESSION session", SYNTAX),
            ("BLOCK 0 START 1", SYNTAX),
            ("BLOCK 0 NOTIFY ch START", SYNTAX),
            ("BLOCK 0 NOTIFY ch START 1 START 2", SYNTAX),
            ("BLOCK 0 NOTIFY ch START 1 SESSION", SYNTAX),
            ("BLOCK 0 NOTIFY ch START 1 SYNC 1 100", SYNTAX),
            ("BLOCK 0 NOTIFY ch START WANTED", NO_INTEGER),
            ("BLOCK 0 NOTIFY ch START 9223372036854775808", NO_INTEGER),
            ("BLOCK 0 NOTIFY ch START 0", NOT_POSITIVE),
            ("MAXHOLD", SYNTAX),
            ("MAXHOLD 5 MAXHOLD 5", SYNTAX),
            ("MAXHOLD 0", NOT_POSITIVE),
            ("MAXHOLD -1", NOT_POSITIVE),
            ("MAXHOLD long", NO_INTEGER),
            ("MAXHOLD 9223372036854775808", NO_INTEGER),
            ("LABEL", SYNTAX),
            ("LABEL a LABEL b", SYNTAX),
            (&long, "ERR label must be at most 128 bytes long"),
        ]
        .map(|(options, error)| (format!("LOCK.ACQUIRE {key} OWNER alice {options}"), error))
    }));
}

/// What is no whole number of 64 bits in Redis's own spelling.
const NO_NUMBERS: [&str; 15] = [
    "x",
    "''",
    "+5",
    "_5",
    "5_",
    "05",
    "-0",
    "5.0",
    "1e3",
    "0x5",
    "5s",
    "\u{665}",
    "9223372036854775808",
    "-9223372036854775809",
    "99999999999999999999999999",
];

#[test]
fn a_time_that_is_no_number() {
    each_is_refused(NO_NUMBERS.iter().flat_map(|time| {
        ["LOCK.ACQUIRE held OWNER alice", "LOCK.EXTEND held alice"].iter().flat_map(move |command| {
            ["PX", "EX"].map(|unit| (format!("{command} {unit} {time}"), NO_INTEGER))
        })
    }));
}

#[test]
fn a_time_that_is_zero_negative_or_too_long() {
    let times = [
        "PX 0",
        "EX 0",
        "PX -1",
        "EX -1",
        "PX -9223372036854775808",
        "EX -9223372036854775808",
        "PX 9007199254740992",
        "EX 9007199254741",
        "PX 9223372036854775807",
        "EX 9223372036854775807",
        // 2^64 / 1000 and a bit: in 64 bits, so many ms would be a few seconds.
        "EX 18446744073709552",
        "EX 9223372036854776",
    ];
    each_is_refused(times.iter().flat_map(|time| {
        [
            (format!("LOCK.ACQUIRE free {time}"), BAD_LEASE_ACQUIRE),
            (format!("LOCK.ACQUIRE held OWNER alice ONCE {time}"), BAD_LEASE_ACQUIRE),
            (format!("LOCK.EXTEND held alice {time}"), BAD_LEASE_EXTEND),
            (format!("LOCK.EXTEND free alice {time}"), BAD_LEASE_EXTEND),
        ]
    }));
}

#[test]
fn a_fence_that_is_no_number_or_not_positive() {
    let commands =
        ["LOCK.RELEASE held alice", "LOCK.EXTEND held alice", "LOCK.BREAK held", "LOCK.BREAK free"];
    let no_numbers = NO_NUMBERS.iter().map(|fence| (fence, NO_INTEGER));
    let not_positive = ["0", "-1", "-9223372036854775808"];
    let cases = no_numbers.chain(not_positive.iter().map(|fence| (fence, NOT_POSITIVE)));
    each_is_refused(
        cases.flat_map(|(fence, error)| {
            commands.map(move |command| (format!("{command} FENCE {fence}"), error))
        }),
    );
}

#[test]
fn an_owner_that_is_empty_or_above_128_bytes() {
    let long = "x".repeat(129);
    // 65 characters, 130 bytes.
    let wide = "\u{fc}".repeat(65);
    each_is_refused(["''", &long, &wide].iter().flat_map(|owner| {
        ["LOCK.ACQUIRE free OWNER", "LOCK.ACQUIRE held ONCE OWNER", "LOCK.RELEASE held", "LOCK.EXTEND held"]
            .map(|command| (format!("{command} {owner}"), OWNER_LENGTH))
    }));
}

#[test]
fn a_key_of_another_type_and_other_types_commands() {
    each_is_refused(["string", "list"].iter().flat_map(|key| {
        [
            (format!("LOCK.ACQUIRE {key}"), WRONG_TYPE),
            (format!("LOCK.ACQUIRE {key} OWNER alice ONCE PX 5"), WRONG_TYPE),
            (format!("LOCK.RELEASE {key} alice"), WRONG_TYPE),
            (format!("LOCK.RELEASE {key} alice ALL FENCE 5"), WRONG_TYPE),
            (format!("LOCK.EXTEND {key} alice PX 5"), WRONG_TYPE),
            (format!("LOCK.INFO {key}"), WRONG_TYPE),
            (format!("LOCK.BREAK {key}"), WRONG_TYPE),
            (format!("LOCK.BREAK {key} FENCE 5"), WRONG_TYPE),
        ]
    }));
    each_is_refused([
        ("LOCK.ACQUIRE string NX", SYNTAX),
        ("LOCK.ACQUIRE string PX 0", BAD_LEASE_ACQUIRE),
        ("LOCK.RELEASE string ''", OWNER_LENGTH),
        ("LOCK.EXTEND string alice PX x", NO_INTEGER),
        ("LOCK.BREAK string FENCE 0", NOT_POSITIVE),
    ]);
    each_is_refused([
        ("GET held", WRONG_TYPE),
        ("APPEND held x", WRONG_TYPE),
        ("INCR held", WRONG_TYPE),
        ("LPUSH held x", WRONG_TYPE),
        ("HGETALL held", WRONG_TYPE),
        ("SADD held x", WRONG_TYPE),
    ]);
}

#[test]
fn what_a_primary_tells_its_replicas_is_refused_in_scripts_and_transactions() {
    let (_server, mut client) = Server::and_client();
    client.acquire("held", "OWNER alice").unwrap();
    let before = client.snapshot();
    client.send_words(["EVAL", "return redis.call('LOCK.APPLY', KEYS[1])", "1", "held"]).unwrap_err();
    client.ask::<()>("MULTI");
    client.ask::<()>("LOCK.APPLY held");
    let replies = client.send("EXEC");
    assert!(
        matches!(&replies, Ok(redis::Value::Array(replies)) if matches!(replies[..], [redis::Value::ServerError(_)]))
    );
    assert_eq!(client.snapshot(), before);
}
