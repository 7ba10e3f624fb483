//! Values repeated on a page agree with their source: defaults of settings, and versions of servers, Rust and the project.

use std::fs;
use std::path::Path;

use super::operations::prose;
use crate::support::root;

/// Returns the page's text in one line, with numbers without commas.
fn plain(path: &Path) -> String {
    let text = prose(&fs::read_to_string(path).unwrap());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let signs: Vec<char> = text.chars().collect();
    let is_digit =
        |place: Option<usize>| place.and_then(|at| signs.get(at)).is_some_and(char::is_ascii_digit);
    let kept = signs.iter().enumerate().filter(|&(at, &sign)| {
        sign != ',' || !is_digit(at.checked_sub(1)) || !(1..=3).all(|ahead| is_digit(Some(at + ahead)))
    });
    kept.map(|(_, sign)| sign).collect()
}

/// Returns a list in words, such as "7.0, 8.0 and 8.6".
fn listed(names: &[&str]) -> String {
    let (last, others) = names.split_last().unwrap();
    format!("{} and {last}", others.join(", "))
}

#[test]
fn versions_are_those_of_the_project() {
    let text = fs::read_to_string(root().join("tests/servers.conf")).unwrap();
    let servers = |kind: &str| {
        let names = text.lines().filter_map(|line| line.strip_prefix(kind)?.split_whitespace().next());
        // Servers of the same minor version are listed once.
        listed(&names.filter(|name| name.matches('.').count() < 2).collect::<Vec<_>>())
    };
    let servers = format!("Redis {}, and on Valkey {}", servers("redis-"), servers("valkey-"));
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let declared = |field: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_prefix("= \""));
        line.unwrap().trim_end_matches('"').to_owned()
    };
    let (version, rust) = (declared("version "), declared("rust-version "));
    for (page, words) in [
        ("docs/operations/versions.md", servers),
        ("docs/operations/versions.md", format!("This is version {version},")),
        ("README.md", format!("version {version}")),
        ("docs/operations/install.md", format!("Rust {rust} or later")),
    ] {
        assert!(plain(&root().join(page)).contains(&words), "{page} does not say {words:?}");
    }
}
