//! Wrong input: each kind has its own error, and nothing changes.

use crate::support::{Payload, Server};

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
    let server = Server::start();
    let mut client = server.client();
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
fn a_wrong_number_of_arguments() {
    each_is_refused([
        ("LOCK.ACQUIRE", "ERR wrong number of arguments for 'lock.acquire' command"),
        ("LOCK.RELEASE", "ERR wrong number of arguments for 'lock.release' command"),
        ("LOCK.RELEASE held", "ERR wrong number of arguments for 'lock.release' command"),
        ("LOCK.EXTEND", "ERR wrong number of arguments for 'lock.extend' command"),
        ("LOCK.EXTEND held", "ERR wrong number of arguments for 'lock.extend' command"),
        ("LOCK.INFO", "ERR wrong number of arguments for 'lock.info' command"),
        ("LOCK.BREAK", "ERR wrong number of arguments for 'lock.break' command"),
    ]);
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
        ("LOCK.EXTEND held alice 5000", SYNTAX),
        ("LOCK.EXTEND held alice ALL", SYNTAX),
        ("LOCK.BREAK held alice", SYNTAX),
        ("LOCK.BREAK held ALL", SYNTAX),
        ("LOCK.INFO held ALL", SYNTAX),
        ("LOCK.INFO held FULL FULL", SYNTAX),
    ]);
}

#[test]
fn an_option_given_twice_in_whatever_case_or_with_one_that_excludes_it() {
    each_is_refused([
        ("LOCK.ACQUIRE held OWNER alice OWNER alice", SYNTAX),
        ("LOCK.ACQUIRE held OWNER alice owner bob", SYNTAX),
        ("LOCK.ACQUIRE held OWNER alice EX 5 ex 5", SYNTAX),
        ("LOCK.ACQUIRE held OWNER alice px 5 PX 5", SYNTAX),
        ("LOCK.ACQUIRE held OWNER alice EX 5 PX 5", SYNTAX),
        ("LOCK.ACQUIRE held pX 5 OWNER alice eX 5", SYNTAX),
        ("LOCK.ACQUIRE held ONCE OWNER alice oNcE", SYNTAX),
        ("LOCK.RELEASE held alice ALL all", SYNTAX),
        ("LOCK.RELEASE held alice FENCE 5 fence 5", SYNTAX),
        ("LOCK.EXTEND held alice EX 5 Ex 5", SYNTAX),
        ("LOCK.EXTEND held alice PX 5 px 5", SYNTAX),
        ("LOCK.EXTEND held alice EX 5 PX 5", SYNTAX),
        ("LOCK.EXTEND held alice Fence 5 FENCE 5", SYNTAX),
        ("LOCK.BREAK held FENCE 5 fENCE 5", SYNTAX),
    ]);
}

#[test]
fn an_option_without_its_value() {
    each_is_refused([
        ("LOCK.ACQUIRE free OWNER", SYNTAX),
        ("LOCK.ACQUIRE free PX", SYNTAX),
        ("LOCK.ACQUIRE free EX", SYNTAX),
        ("LOCK.ACQUIRE free OWNER alice PX", SYNTAX),
        ("LOCK.ACQUIRE free PX 5 OWNER", SYNTAX),
        ("LOCK.RELEASE held alice FENCE", SYNTAX),
        ("LOCK.RELEASE held alice ALL FENCE", SYNTAX),
        ("LOCK.EXTEND held alice PX", SYNTAX),
        ("LOCK.EXTEND held alice EX", SYNTAX),
        ("LOCK.EXTEND held alice PX 5 FENCE", SYNTAX),
        ("LOCK.BREAK held FENCE", SYNTAX),
    ]);
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
fn a_key_of_another_type() {
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
}

#[test]
fn syntax_is_checked_before_the_key() {
    each_is_refused([
        ("LOCK.ACQUIRE string NX", SYNTAX),
        ("LOCK.ACQUIRE string PX 0", BAD_LEASE_ACQUIRE),
        ("LOCK.RELEASE string ''", OWNER_LENGTH),
        ("LOCK.EXTEND string alice PX x", NO_INTEGER),
        ("LOCK.BREAK string FENCE 0", NOT_POSITIVE),
    ]);
}

#[test]
fn other_types_commands_refuse_a_lock() {
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
fn what_a_primary_tells_its_replicas_is_refused_from_clients() {
    const NO_CLIENTS: &str = "ERR this command is the module's own and not for clients";
    each_is_refused([
        ("LOCK.APPLY held", NO_CLIENTS),
        ("LOCK.APPLY free", NO_CLIENTS),
        ("LOCK.APPLY free -1,5,1,0,alice", NO_CLIENTS),
        ("LOCK.APPLY held 99999999999999,5,1,0,bob", NO_CLIENTS),
    ]);
}

#[test]
fn what_a_primary_tells_its_replicas_is_refused_in_scripts_and_transactions() {
    let server = Server::start();
    let mut client = server.client();
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

#[test]
fn random_lines_leave_the_server_and_the_lock_whole() {
    const COUNTS: [&str; 8] = ["0", "1", "2", "3", "-1", "x", "", "9223372036854775807"];
    const WORDS: [&str; 17] = [
        "OWNER",
        "alice",
        "PX",
        "EX",
        "60000",
        "ONCE",
        "ALL",
        "FENCE",
        "-1",
        "0",
        "''",
        "x",
        "1",
        "PX",
        "99999999999999",
        "SHARED",
        "MAXHOLD",
    ];
    let server = Server::start();
    let mut client = server.client();
    let payload = Payload::lock(&mut client, b"eve", 5, 1).encode();
    client.ask_words::<(), _>([b"RESTORE", &b"k"[..], b"0", &payload]);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for _ in 0..2000 {
        let command = ["ACQUIRE", "RELEASE", "EXTEND", "INFO", "MACQUIRE", "MRELEASE", "MEXTEND"][next(7)];
        let mut words = vec![format!("LOCK.{command}")];
        if command.starts_with('M') {
            words.push(COUNTS[next(COUNTS.len())].into());
        }
        words.push("k".into());
        for _ in 0..next(7) {
            words.push(WORDS[next(WORDS.len())].replace("''", ""));
        }
        let reply = client.send_words(&words);
        assert!(!matches!(&reply, Err(error) if error.contains("internal")), "{words:?}: {reply:?}");
        // None of the words names eve, so the lock stays hers, whatever was sent.
        let holder = client.holder("k").unwrap();
        assert_eq!(
            (&holder.owner[..], holder.fence, holder.holds, holder.lease),
            ("eve", 5, 1, -1),
            "{words:?}"
        );
    }
}
