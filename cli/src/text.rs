//! Text for people: tables, times, and names that may contain anything.

use std::time::Duration;

use serde_json::Value;

/// Replaces control characters, which clients may have put into names, so that none reaches a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
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
    fn no_escape_sequence_reaches_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
    }
}
