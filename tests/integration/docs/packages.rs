//! The constants of the packages, and the errors after which they try again, are those of docs/protocol.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::support::root;

/// Each package: its folder, the ending of its source files, the name of its list of errors, its constants, and the unit, in ms, of numbers
/// without a unit. PHP waits with `BLOCK`, and Node pings all the time, so these lack some constants.
const PACKAGES: [(&str, &str, &str, &[&str], f64); 7] = [
    ("go", "go", "passing", ALL, 1.0),
    ("java/client/src/main", "java", "PASSING", ALL, 1000.0),
    ("node/src", "ts", "PASSING", &["ASK_AGAIN", "TRY_AGAIN", "PARTING"], 1.0),
    ("php/src", "php", "PASSING", &["TRY_AGAIN"], 1000.0),
    ("python/src", "py", "PASSING_CODES", &["ASK_AGAIN", "TRY_AGAIN", "SILENCE"], 1000.0),
    ("ruby/lib", "rb", "PASSING", ALL, 1000.0),
    ("rust/src", "rs", "PASSING", ALL, 1000.0),
];
const ALL: &[&str] = &["ASK_AGAIN", "TRY_AGAIN", "PARTING", "SILENCE"];
/// Parts of a time: on the page, and in the sources.
const PARTS: [(&str, &str); 2] = [("lease / 3", "lease/3"), ("MS / 5", "lasts/5")];

/// Returns the text of all files with this ending, in one line.
fn source(folder: &Path, ending: &str) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &source(&path, ending);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            text += &fs::read_to_string(&path).unwrap();
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the text after the assignment to this name.
fn assigned<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let named = source.match_indices(name).filter(|&(at, _)| source[..at].ends_with(' '));
    let mut values = named.filter_map(|(at, _)| source[at + name.len()..].split_once("= "));
    values.find(|(kind, _)| *kind == " " || kind.starts_with(": ") && kind.len() < 20).map(|(_, value)| value)
}

/// Returns the quoted words of a list.
fn listed(mut text: &str) -> BTreeSet<&str> {
    let mut words = BTreeSet::new();
    text = &text[text.find(['"', '\'']).unwrap()..];
    while let Some(quote) = text.chars().next().filter(|sign| "\"'".contains(*sign)) {
        let (word, rest) = text[1..].split_once(quote).unwrap();
        words.insert(word);
        text = rest.trim_start_matches([',', ' ']);
    }
    words
}

/// Parses values such as `4 * time.Second`, `TimeUnit.MILLISECONDS.toNanos(40)` and `0.1 # after a lost connection`.
fn in_ms(value: &str, unit: f64) -> f64 {
    let value = value.split(['#', ';', '/']).next().unwrap().to_lowercase();
    let from = value.find(|sign: char| sign.is_ascii_digit()).unwrap();
    let number = value[from..].split(|sign: char| !sign.is_ascii_digit() && sign != '.').next().unwrap();
    let unit = if value.contains("milli") {
        1.0
    } else if value.contains("second") {
        1000.0
    } else {
        unit
    };
    number.parse::<f64>().unwrap() * unit
}

/// Turns a name like `ASK_AGAIN` into `askAgain`.
fn in_camel_case(constant: &str) -> String {
    let (first, rest) = constant.split_once('_').unwrap_or((constant, ""));
    let (initial, others) = rest.split_at(rest.len().min(1));
    format!("{}{initial}{}", first.to_lowercase(), others.to_lowercase())
}

#[test]
fn all_packages_try_again_alike() {
    let page = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let section = page.split("\n## When to try again\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(" | ").collect()).collect();
    let (constants, errors): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.len() == 3);
    let errors: BTreeSet<_> = errors.iter().flat_map(|row| row[0].split('`').step_by(2)).collect();
    let constants: BTreeMap<_, _> = constants
        .iter()
        .map(|row| (row[0].trim_end_matches('`'), in_ms(&row[1].replace("ms", "milli"), 1000.0)))
        .collect();
    let all = ALL.iter().copied().chain(PARTS.map(|(name, _)| name)).collect();
    assert_eq!(constants.keys().copied().collect::<BTreeSet<_>>(), all);
    for (folder, ending, passing, names, unit) in PACKAGES {
        let source = source(&root().join("clients").join(folder), ending);
        assert_eq!(
            listed(assigned(&source, passing).expect(folder)),
            errors,
            "{folder}, and docs/protocol.md"
        );
        for (name, part) in PARTS {
            let unused = folder == "php/src" && name == "MS / 5"; // no `start` comes to a wait with `BLOCK`
            assert!(unused || source.replace(' ', "").contains(part), "{folder} has no {name}");
        }
        for name in names {
            let its = if ending == "go" { in_camel_case(name) } else { (*name).to_owned() };
            let value = assigned(&source, &its).unwrap_or_else(|| panic!("{folder} has no {its}"));
            assert_eq!(in_ms(value, unit), constants[name], "{folder}: {its}, and docs/protocol.md");
        }
    }
}
