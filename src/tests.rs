//! Parts of the source import only parts further down; within a crate, the compiler accepts any import.

use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

/// Each part of the module, then of the rules, and the parts of its crate that it may use, which are all further down. Tests, fuzzers and
/// `lib.rs` may use any part.
const ORDER: &[(&str, &[&str])] = &[
    ("info", &["keyspace", "server", "serving", "stats"]),
    ("commands", &["config", "error", "keyspace", "server", "serving", "stats"]),
    ("serving", &["config", "error", "keyspace", "server", "stats"]),
    ("error", &["keyspace", "server"]),
    ("config", &["server"]),
    ("keyspace", &["server", "stats"]),
    ("encoding", &["lock"]),
    ("waiting", &["counted", "lock"]),
    ("lock", &["counted"]),
    ("counted", &[]),
    ("server", &[]),
    ("stats", &[]),
];

#[test]
fn imports_go_down_only() {
    let place = |part: &str| ORDER.iter().position(|(name, _)| *name == part);
    for (part, used) in ORDER {
        assert!(used.iter().all(|other| place(other) > place(part)), "{part}");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut complaints = Vec::new();
    for src in ["src", "rules/src"] {
        visit(&root.join(src), &root.join(src), &mut complaints);
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn visit(src: &Path, folder: &Path, complaints: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(src).unwrap().to_str().unwrap();
        let part = name.split(['/', '.']).next().unwrap();
        if ["lib", "tests", "fuzzing"].contains(&path.file_stem().unwrap().to_str().unwrap()) {
            continue;
        } else if path.is_dir() {
            visit(src, &path, complaints);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            complaints.extend(upward(part, name, &text).map(|fault| format!("{}: {fault}", path.display())));
        }
    }
}

/// The imports of a file in this part that the order does not allow.
fn upward(part: &str, name: &str, text: &str) -> impl Iterator<Item = String> {
    let depth = name.trim_end_matches(".rs").trim_end_matches("/mod").split('/').count();
    let mut used = Vec::new();
    from_root(text.parse().unwrap(), depth, &mut used);
    let (_, may) =
        *ORDER.iter().find(|(name, _)| *name == part).unwrap_or_else(|| panic!("{part} has no place"));
    used.retain(|other| other != part && !may.contains(&&other[..]));
    used.into_iter().map(move |other| format!("imports {other}, but {may:?} are all that {part} may use"))
}

/// Notes the names that follow `crate::`, or as many `super::` as lead there from a module of that depth.
fn from_root(tokens: TokenStream, depth: usize, used: &mut Vec<String>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let is = |place: usize, text: &str| tokens.get(place).is_some_and(|token| token.to_string() == text);
    let mut supers = 0;
    for (place, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            let is_module = place > 1 && is(place - 2, "mod");
            from_root(group.stream(), depth + usize::from(is_module), used);
        }
        // `pub(in crate::part)` is no use.
        let (begins, goes_on) =
            (is(place, "crate") && !(place > 0 && is(place - 1, "in")), is(place, "super"));
        supers = if goes_on { supers + 1 } else { supers };
        if (begins || goes_on && supers == depth) && is(place + 1, ":") {
            match tokens.get(place + 3) {
                Some(TokenTree::Group(group)) => {
                    let names = group.stream().into_iter().collect::<Vec<_>>();
                    used.extend(
                        names
                            .split(|name| name.to_string() == ",")
                            .filter_map(|name| Some(name.first()?.to_string())),
                    );
                }
                name => used.extend(name.map(ToString::to_string)),
            }
        }
        if !goes_on && !is(place, ":") {
            supers = 0;
        }
    }
}

#[test]
fn an_upward_import_is_found() {
    for text in [
        "use crate::commands::reply;",
        "use crate::{stats::Count, commands};",
        "pub(crate) use super::super::commands::*;",
        "fn run() { crate::commands::reply() }",
        "fn run(_: Option<super::super::commands::Reply>) {}",
        "fn run() { print!(\"{}\", crate::commands::reply()) }",
        "macro_rules! reply { () => { $crate::commands::reply() } }",
        "mod inner { fn run() { super::super::super::commands::reply() } }",
    ] {
        assert_eq!(upward("keyspace", "keyspace/key.rs", text).count(), 1, "{text}");
    }
    let down = "use super::key; use crate::{server, stats}; pub(in crate::lock) struct Lock(super::super::server::Key);";
    assert_eq!(upward("keyspace", "keyspace/key.rs", down).collect::<Vec<_>>(), [""; 0]);
}
