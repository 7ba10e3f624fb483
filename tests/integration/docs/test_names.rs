//! The tests, and the parts of the source, that pages and scripts name are there: `wait::order::`, `waiting::budget`.

use std::env::current_exe;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::operations::prose;
use crate::support::root;

/// Pages that name tests, and scripts that choose some.
const FILES: [&str; 9] = [
    "CONTRIBUTING.md",
    "docs/decisions.md",
    "docs/design.md",
    "docs/evidence.md",
    "docs/operations.md",
    "docs/safety.md",
    "scripts/arm64",
    "scripts/leaks",
    "xtask/src/test/steps.rs",
];

/// The words of a page or a script that may be the path of a test or of a part of the source; not those of types.
fn paths(text: &str) -> Vec<&str> {
    let is_part = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || "_:".contains(sign);
    let words = text.split(|sign: char| !(is_part(sign) || sign.is_ascii_uppercase()));
    let words = words.filter(|word| word.contains("::") && !word.starts_with([':', '1', '2']));
    words.filter(|word| word.chars().all(is_part) && !word.starts_with("std::")).collect()
}

/// What stands in quotes: the rest of a Rust file names its own parts.
fn literals(text: &str) -> String {
    text.split('"').skip(1).step_by(2).map(|literal| format!("{literal}\n")).collect()
}

/// The names of all tests of this program.
fn tests() -> Vec<String> {
    let output = Command::new(current_exe().unwrap()).arg("--list").output().unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// All files of the folder, and of those in it.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Whether there is such a part of the source: a module, or what one has.
fn is_in_source(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_end_matches("::").split("::").collect();
    files(&root().join("src")).iter().any(|file| {
        let module = file.with_extension("");
        let module = if module.ends_with("mod") { module.parent().unwrap() } else { &module };
        let (outer, last) = (parts[..parts.len() - 1].join("/"), parts[parts.len() - 1]);
        let has = || fs::read_to_string(file).unwrap().contains(last);
        module.ends_with(parts.join("/")) || module.ends_with(&outer) && has()
    })
}

#[test]
fn each_test_that_is_named_is_there() {
    let tests = tests();
    assert!(tests.iter().any(|test| test.ends_with("each_test_that_is_named_is_there")), "{tests:?}");
    let mut named = 0;
    for file in FILES {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let text = if file.ends_with(".md") { prose(&text) } else { text };
        let text = if file.ends_with(".rs") { literals(&text) } else { text };
        for path in paths(&text) {
            let is_test = tests.iter().any(|test| test.contains(path));
            assert!(is_test || is_in_source(path), "{file} names {path}: no test, and nothing in src");
            named += 1;
        }
    }
    assert!(named > 60, "{named}");
}
