//! What the locks of a file were when it was written: a table beside it, a line for each lock.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;

use redis::{FromRedisValue, Value, from_redis_value};

use super::golden;
use crate::support::Client;

/// One lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) db: i64,
    pub(super) key: Vec<u8>,
    pub(super) owner: Vec<u8>,
    pub(super) fence: i64,
    pub(super) holds: i64,
    /// The greatest age in ms; 0: none.
    pub(super) max_hold: i64,
    /// When the key expires, in ms since 1970; -1: never.
    pub(super) ends: i64,
    /// What `DUMP` answered.
    pub(super) dump: Vec<u8>,
}

/// The lock as the server shows it; none where it is free. The selected database is to be `db`.
pub(super) fn shown(client: &mut Client, db: i64, key: &[u8], max_hold: i64) -> Option<Line> {
    let info: HashMap<String, Value> = client
        .ask_words::<Option<_>, _>([b"LOCK.INFO", key])
        .filter(|info: &HashMap<_, _>| !info.is_empty())?;
    fn field<T: FromRedisValue>(info: &HashMap<String, Value>, name: &str) -> T {
        from_redis_value(info[name].clone()).unwrap()
    }
    Some(Line {
        db,
        key: key.into(),
        owner: field(&info, "owner"),
        fence: field(&info, "fence"),
        holds: field(&info, "holds"),
        max_hold,
        ends: client.ask_words([b"PEXPIRETIME", key]),
        dump: client.ask_words([b"DUMP", key]),
    })
}

pub(super) fn read(name: &str) -> Vec<Line> {
    let text = fs::read_to_string(golden(name)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap();
        let bytes = |word: &str| -> Vec<u8> {
            let pairs = word.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
        };
        Line {
            db: next().parse().unwrap(),
            key: bytes(next()),
            owner: bytes(next()),
            fence: next().parse().unwrap(),
            holds: next().parse().unwrap(),
            max_hold: next().parse().unwrap(),
            ends: next().parse().unwrap(),
            dump: bytes(next()),
        }
    });
    lines.collect()
}

pub(super) fn write(name: &str, lines: &[Line]) {
    let mut text =
        String::from("# database key owner fence holds max-hold expires dump; bytes in hexadecimal\n");
    for Line { db, key, owner, fence, holds, max_hold, ends, dump } in lines {
        let [key, owner, dump] = [key, owner, dump].map(|bytes| {
            bytes.iter().fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").unwrap();
                text
            })
        });
        writeln!(text, "{db} {key} {owner} {fence} {holds} {max_hold} {ends} {dump}").unwrap();
    }
    fs::write(golden(name), text).unwrap();
}
