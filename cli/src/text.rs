//! Text for people: tables, times, and names that may contain anything.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use redis::{RedisWrite, ToRedisArgs, ToSingleRedisArg};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The name of a lock: any bytes. In options, `\xff` stands for one byte, and `Display` writes bytes that are not UTF-8 in this way.
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

/// If the bytes begin with an escape such as `\xff`, the byte that it stands for.
fn escape(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(b"\\x")?.get(..2)?;
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    digits.iter().try_fold(0, |number, byte| Some(number * 16 + digit(byte)?))?.try_into().ok()
}

/// Bytes as text. A byte that is not UTF-8 becomes `\xff`; a backslash before such an escape becomes `\x5c`, so the text can be read back.
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

/// Escapes characters that control a terminal, or hide or reorder text, as `\x1b`: names come from clients, which may be hostile.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::new();
    for char in text.chars() {
        let is_unseen = matches!(char, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if char.is_control() || is_unseen {
            let mut bytes = [0; 4];
            shown.extend(char.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\x{byte:02x}")));
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Prints a message to standard error. A failure to print it is ignored.
pub(crate) fn say(what: impl fmt::Display) {
    drop(writeln!(std::io::stderr(), "redislock: {what}"));
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

/// The field `name` as a number; 0 if it is missing or is no number.
pub(crate) fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_i64).and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
}

/// The field `name` as text that is safe for a terminal; empty if it is missing.
pub(crate) fn word(value: &Value, name: &str) -> String {
    printable(value.get(name).and_then(Value::as_str).unwrap_or_default())
}

/// A cell that is wider than this does not make its column wider, unless all cells are cut to the terminal.
const PADDED: usize = 40;
/// The fewest columns of a terminal that a long cell is cut to.
const LEAST: usize = 12;

/// A table whose columns are as wide as their widest cells. If `cut` limits the table's width, the widest cells end in `…`.
pub(crate) fn table(rows: &[Vec<String>], cut: Option<usize>) -> String {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    let room = cut.map_or(usize::MAX, |cut| cut.saturating_sub(2 * widths.len().saturating_sub(1)));
    let fits = |most: &usize| widths.iter().map(|width| width.min(most)).sum::<usize>() <= room;
    let widest = widths.iter().copied().max().unwrap_or_default().min(cut.unwrap_or(PADDED));
    let most = if cut.is_some() { (LEAST..=widest).rev().find(fits).unwrap_or(LEAST) } else { widest };
    let mut text = String::new();
    for row in rows {
        let begin = text.len();
        for (cell, width) in row.iter().zip(&widths) {
            let cell = if cut.is_some() { shortened(cell, most) } else { Cow::Borrowed(cell.as_str()) };
            text += &cell;
            text.extend(std::iter::repeat_n(' ', width.min(&most).saturating_sub(cell.width()) + 2));
        }
        let line = text.split_off(begin);
        text += &shortened(line.trim_end(), cut.unwrap_or(usize::MAX));
        text.push('\n');
    }
    text
}

/// A text that takes at most so many columns of a terminal.
fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.width() <= most {
        return text.into();
    }
    let mut left = most.saturating_sub(1);
    let fits = |char: &char| {
        let rest = left.checked_sub(char.width().unwrap_or_default());
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.push('…');
    short.into()
}

/// A number as people read it: 10,004.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

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
        let rows =
            [["KEY", "HOLDER"], ["invoice:42:of:us", "alice"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows, None), "KEY               HOLDER\ninvoice:42:of:us  alice\n");
        assert_eq!(table(&rows, Some(23)), "KEY              HOLDER\ninvoice:42:of:…  alice\n");
        assert_eq!(table(&rows, Some(8)), "KEY    …\ninvoice…\n");
        // A long name does not make the other rows wider.
        let rows = ["a".repeat(1_000), "日本".to_owned()].map(|name| vec![name, "b".to_owned()]);
        let lengths = |cut| table(&rows, cut).lines().map(|line| line.width()).collect::<Vec<_>>();
        assert_eq!(lengths(None), [1_003, 43]);
        assert_eq!(lengths(Some(80)), [80, 80]);
        let (many, begin) = (vec![vec!["x".to_owned(); 6]; 50_000], Instant::now());
        assert_eq!(table(&many, None).len(), 50_000 * 17);
        assert!(begin.elapsed() < Duration::from_secs(10), "it looks at each row once");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 10_004, 1_234_567].map(count), ["0", "999", "10,004", "1,234,567"]);
    }

    #[test]
    fn any_name_is_shown_without_control_characters_and_can_be_given_as_it_is_shown() {
        for (name, shown) in [
            (b"invoice:42 \xc3\xb6" as &[u8], "invoice:42 \u{f6}"),
            (b"a\x1b[2Jb\xc2\x85\0", "a\\x1b[2Jb\\xc2\\x85\\x00"),
            ("a\u{202e}b\u{2028}".as_bytes(), "a\\xe2\\x80\\xaeb\\xe2\\x80\\xa8"),
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
