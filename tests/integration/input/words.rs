//! Wrong input: each kind has its own error, and nothing changes.

use crate::support::{Server, no_integer, not_positive, syntax_at};

const OWNER_LENGTH: &str = "ERR owner must be 1 to 128 bytes long";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const BAD_LEASE_ACQUIRE: &str = "ERR invalid expire time in 'lock.acquire' command";
const BAD_LEASE_EXTEND: &str = "ERR invalid expire time in 'lock.extend' command";

/// Sends each line to a server where alice holds `held`, `free` is free, and `string` and `list` are of other types.
#[track_caller]
fn each_is_refused<L: AsRef<str>, E: Into<String>>(cases: impl IntoIterator<Item = (L, E)>) {
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
fn an_unknown_word_is_refused() {
    let cases = [
        ("LOCK.ACQUIRE free NX", "NX"),
        ("LOCK.ACQUIRE free ''", ""),
        ("LOCK.ACQUIRE free alice", "alice"),
        ("LOCK.ACQUIRE free OWNER alice 5", "5"),
        ("LOCK.ACQUIRE free OWNERS alice", "OWNERS"),
        ("LOCK.ACQUIRE free P 5", "P"),
        ("LOCK.ACQUIRE free PX_ 5", "PX "),
        ("LOCK.ACQUIRE held OWNER alice ALL", "ALL"),
        ("LOCK.ACQUIRE held OWNER alice FENCE 5", "FENCE"),
        ("LOCK.RELEASE held alice PX 5", "PX"),
        ("LOCK.RELEASE held alice bob", "bob"),
        ("LOCK.RELEASE held alice ONCE", "ONCE"),
        ("LOCK.RELEASE held alice SESSION", "SESSION"),
        ("LOCK.RELEASE held alice BLOCK 0", "BLOCK"),
        ("LOCK.EXTEND held alice BLOCK 0", "BLOCK"),
        ("LOCK.MACQUIRE 2 held free OWNER alice LABEL", "LABEL"),
        ("LOCK.MACQUIRE 1 free OWNER bob BLOCK 0 NOTIFY ch START 1", "START"),
        ("LOCK.EXTEND held alice 5000", "5000"),
        ("LOCK.EXTEND held alice ALL", "ALL"),
        ("LOCK.BREAK held alice", "alice"),
        ("LOCK.BREAK held ALL", "ALL"),
        ("LOCK.INFO held ALL", "ALL"),
        ("LOCK.INFO held FULL FULL", "FULL"),
    ];
    each_is_refused(cases.map(|(line, word)| (line, syntax_at(word))));
}

#[test]
fn an_option_without_its_value_twice_or_beside_one_that_it_excludes() {
    let cases = [
        ("BLOCK", "BLOCK"),
        ("EX 5 PX 5", "PX"),
        ("px 5 PX 5", "PX"),
        ("SLOT 1", "SLOT"),
        ("SHARED LIMIT 3", "LIMIT"),
        ("LIMIT 3 SHARED", "SHARED"),
        ("BLOCK 0 START 1", "START"),
        ("BLOCK 0 WANTED", "WANTED"),
        ("BLOCK 0 NOTIFY ch START", "START"),
        ("BLOCK 0 NOTIFY ch START 1 START 2", "START"),
        ("BLOCK 0 NOTIFY ch START 1 SESSION", "START"),
        ("BLOCK 0 NOTIFY ch START 1 SYNC 1 100", "START"),
        ("SYNC 1", "SYNC"),
        ("MAXHOLD", "MAXHOLD"),
        ("LABEL", "LABEL"),
    ];
    each_is_refused(["held", "free"].iter().flat_map(|key| {
        cases.map(|(options, word)| (format!("LOCK.ACQUIRE {key} OWNER alice {options}"), syntax_at(word)))
    }));
}

#[test]
fn a_value_out_of_range_is_refused() {
    const NO_TIMEOUT: &str = "ERR timeout is not an integer or out of range";
    const START: &str = "START must be between 1 and 9223372036854775807";
    const MAXHOLD: &str = "MAXHOLD must be between 1 and 9007199254740991";
    let long = format!("LABEL {}", "x".repeat(129));
    each_is_refused(["held", "free"].iter().flat_map(|key| {
        [
            ("BLOCK -1", "ERR timeout is negative".into()),
            ("BLOCK -9223372036854775808", "ERR timeout is negative".into()),
            ("BLOCK soon", NO_TIMEOUT.into()),
            ("BLOCK 1.5", NO_TIMEOUT.into()),
            ("BLOCK 9007199254740992", NO_TIMEOUT.into()),
            ("BLOCK 9223372036854775808", NO_TIMEOUT.into()),
            ("BLOCK 0 NOTIFY ch START WANTED", no_integer(START)),
            ("BLOCK 0 NOTIFY ch START 9223372036854775808", no_integer(START)),
            ("BLOCK 0 NOTIFY ch START 0", not_positive(START)),
            ("MAXHOLD 0", not_positive(MAXHOLD)),
            ("MAXHOLD -1", not_positive(MAXHOLD)),
            ("MAXHOLD long", no_integer(MAXHOLD)),
            ("MAXHOLD 9007199254740992", no_integer(MAXHOLD)),
            ("MAXHOLD 9223372036854775808", no_integer(MAXHOLD)),
            (&long, "ERR label must be at most 128 bytes long".to_owned()),
        ]
        .map(|(options, error)| (format!("LOCK.ACQUIRE {key} OWNER alice {options}"), error))
    }));
}

/// Bytes of a client in an error can't end its line, nor make it long.
#[test]
fn what_an_error_repeats_of_a_client() {
    let (_server, mut client) = Server::and_client();
    client.acquire("held", "OWNER alice").unwrap();
    let before = client.snapshot();
    let (most, long) = ("x".repeat(64), "x".repeat(1_000_000));
    let cut = format!("{most}...");
    for (word, shown) in [
        (&b"cr\r\nlf"[..], r"cr\r\nlf"),
        (b"+OK\r\n-ERR", r"+OK\r\n-ERR"),
        (b"nul\0inside", r"nul\x00inside"),
        (b"\xff\x1b[31m", r"\xff\x1b[31m"),
        (b"'quoted' \"twice\" \\", r#"\'quoted\' \"twice\" \\"#),
        (b"%s%n", "%s%n"),
        (b"", ""),
        (most.as_bytes(), &most),
        (long.as_bytes(), &cut),
    ] {
        assert_eq!(client.send_words([&b"LOCK.ACQUIRE"[..], b"held", word]), Err(syntax_at(shown)));
        let lost = format!("NOTHELD the lock is not held by this owner: '{shown}' is free");
        assert_eq!(client.send_words([&b"LOCK.MEXTEND"[..], b"2", b"held", word, b"alice"]), Err(lost));
    }
    assert_eq!(client.snapshot(), before);
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
fn a_time_that_is_no_number_is_refused() {
    each_is_refused(NO_NUMBERS.iter().flat_map(|time| {
        ["LOCK.ACQUIRE held OWNER alice", "LOCK.EXTEND held alice"].iter().flat_map(move |command| {
            [
                ("PX", "PX must be between 1 and 9007199254740991"),
                ("EX", "EX must be between 1 and 9007199254740"),
            ]
            .map(|(unit, range)| (format!("{command} {unit} {time}"), no_integer(range)))
        })
    }));
}

#[test]
fn a_time_that_is_zero_negative_or_too_long_is_refused() {
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
    const RANGE: &str = "FENCE must be between 1 and 9223372036854775807";
    let no_numbers = NO_NUMBERS.iter().map(|fence| (fence, no_integer(RANGE)));
    let low = ["0", "-1", "-9223372036854775808"];
    let cases = no_numbers.chain(low.iter().map(|fence| (fence, not_positive(RANGE))));
    each_is_refused(cases.flat_map(|(fence, error)| {
        commands.map(move |command| (format!("{command} FENCE {fence}"), error.clone()))
    }));
}

#[test]
fn an_owner_that_is_empty_or_above_128_bytes_is_refused() {
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
        ("LOCK.ACQUIRE string NX", syntax_at("NX")),
        ("LOCK.ACQUIRE string PX 0", BAD_LEASE_ACQUIRE.into()),
        ("LOCK.RELEASE string ''", OWNER_LENGTH.into()),
        ("LOCK.EXTEND string alice PX x", no_integer("PX must be between 1 and 9007199254740991")),
        ("LOCK.BREAK string FENCE 0", not_positive("FENCE must be between 1 and 9223372036854775807")),
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
