//! Text for people: tables, times, and names that may contain anything.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use redis::{RedisWrite, ToRedisArgs, ToSingleRedisArg};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of a lock: any bytes. Options may spell a byte as `\xff`, and `Display` spells those so that are no text.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Name(Vec<u8>);

impl From<OsString> for Name {
    fn from(spelled: OsString) -> Self {
        let (spelled, mut bytes) = (spelled.into_vec(), Vec::new());
        let mut rest = spelled.as_slice();
        while let Some((byte, others)) = rest.split_first() {
            let escaped = escape(rest);
            bytes.push(escaped.unwrap_or(*byte));
            rest = if escaped.is_some() { rest.get(4..).unwrap_or_default() } else { others };
        }
        Self(bytes)
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&printable(&text(&self.0)))
    }
}

impl ToRedisArgs for Name {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg(&self.0);
    }
}

impl ToSingleRedisArg for Name {}

/// The byte that these bytes begin with, if they spell it as `\xff`.
fn escape(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(b"\\x")?.get(..2)?;
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    digits.iter().try_fold(0, |number, byte| Some(number * 16 + digit(byte)?))?.try_into().ok()
}

/// Bytes as text. Those that are not UTF-8 become `\xff`, and a backslash that would be read as the beginning of that becomes `\x5c`.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for (at, char) in chunk.valid().char_indices() {
            match chunk.valid().as_bytes().get(at..).and_then(escape) {
                Some(_) => text += "\\x5c",
                None => text.push(char),
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Spells control characters, which clients may have put into names, as `\x1b`, so that none reaches a terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::new();
    for char in text.chars() {
        if char.is_control() {
            let mut bytes = [0; 4];
            shown.extend(char.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\x{byte:02x}")));
        } else {
            shown.push(char);
        }
    }
    shown
}

/// A time with at most two units: "1d 2h", "3m 20s", "4.2s", "17ms".
pub(crate) fn time(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{}.{}s", ms / 1_000, ms % 1_000 / 100),
        _ => {
            let whole = humantime::format_duration(Duration::from_secs(ms / 1_000)).to_string();
            whole.split(' ').take(2).collect::<Vec<_>>().join(" ")
        }
    }
}

/// A number in a reply, or 0.
pub(crate) fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_i64).and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
}

/// A text in a reply, fit for a terminal.
pub(crate) fn word(value: &Value, name: &str) -> String {
    printable(value.get(name).and_then(Value::as_str).unwrap_or_default())
}

/// A table whose columns are as wide as their widest cells.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line += cell;
            if column + 1 < row.len() {
                let room = width(column) + 2 - cell.chars().count();
                line.extend(std::iter::repeat_n(' ', room));
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units_at_most() {
        for (ms, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1.0s"),
            (59_999, "59.9s"),
            (200_000, "3m 20s"),
            (93_600_000, "1day 2h"),
        ] {
            assert_eq!(time(ms), text);
        }
    }

    #[test]
    fn a_table_lines_up() {
        let rows = [["KEY", "HOLDER"], ["invoice:42", "alice"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "KEY         HOLDER\ninvoice:42  alice\n");
    }

    #[test]
    fn any_name_is_shown_without_control_characters_and_can_be_given_as_it_is_shown() {
        for (name, shown) in [
            (b"invoice:42 \xc3\xb6" as &[u8], "invoice:42 \u{f6}"),
            (b"a\x1b[2Jb\xc2\x85\0", "a\\x1b[2Jb\\xc2\\x85\\x00"),
            (b"\xff\xc3", "\\xff\\xc3"),
            (b"C:\\temp \\\\x4 \\xfg\\x", "C:\\temp \\\\x4 \\xfg\\x"),
            (b"\\xff \\\\xFF", "\\x5cxff \\\\x5cxFF"),
            (b"\\\xff \\x\x1b \\x1\xff", "\\\\xff \\x\\x1b \\x1\\xff"),
            (b"", ""),
        ] {
            assert_eq!(Name(name.to_vec()).to_string(), shown);
            assert_eq!(Name::from(OsString::from(shown)).as_ref(), name, "{shown}");
            assert_eq!(Name::from(OsString::from_vec(text(name).into_bytes())).as_ref(), name, "{shown}");
        }
    }
}
