//! Checks which parts of the source use which other parts: imports only go down, and no files use each other in a cycle.
//!
//! The compiler accepts any import within a crate. This test keeps every file readable with only the files below it. If the methods of one type are in several files, their calls on `self` must go down, too. The test does not see other method
//! calls, because their names don't say where the methods are defined; but a type that contains or borrows another type imports it. Names
//! that a macro makes count for the file that calls the macro.

mod checks;
mod cycles;
mod edges;
mod names;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use cycles::cycles;
use edges::{Edge, edges};
use source::Tree;

/// Each part of the module, then of the rules, and the parts of its crate that it may use, which are all further down. Tests, fuzzers and
/// `lib.rs` may use any part.
const ORDER: &[(&str, &[&str])] = &[
    ("info", &["keyspace", "server", "serving", "stats"]),
    ("commands", &["config", "error", "keyspace", "reply", "server", "serving", "stats"]),
    ("serving", &["config", "error", "keyspace", "reply", "server", "stats"]),
    ("reply", &["error", "server"]),
    ("error", &["keyspace", "server"]),
    ("config", &["server"]),
    ("keyspace", &["server", "stats"]),
    ("waiting", &["lock"]),
    ("lock", &[]),
    ("server", &[]),
    ("stats", &[]),
];

#[test]
fn imports_go_down_only() {
    for src in ["src", "rules/src"] {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(src);
        let mut files = BTreeMap::new();
        read(&src, &src, &mut files);
        let complaints = complaints(&files);
        assert!(complaints.is_empty(), "\n{}:\n{}\n", src.display(), complaints.join("\n"));
    }
}

#[test]
fn the_order_goes_down_only() {
    let place = |part: &str| ORDER.iter().position(|(name, _)| *name == part);
    for (part, used) in ORDER {
        assert!(used.iter().all(|other| place(other) > place(part)), "{part}");
    }
}

/// Reads all source files in a folder into `files`, by their paths from `src`.
fn read(src: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(src, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(src).unwrap().to_str().unwrap();
            files.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
}

/// Returns the complaints about the layout of a source tree. `files` has the text of each file, by path.
fn complaints(files: &BTreeMap<String, String>) -> Vec<String> {
    let tree = Tree::read(files);
    let edges = edges(&tree);
    let mut complaints = unread(files, &tree);
    complaints.extend(upward(&edges));
    // A cycle through several parts includes an upward import, about which there already is a complaint.
    let inside = edges.iter().filter(|edge| edge.of_item && part(edge.from) == part(edge.to));
    complaints.extend(cycles(inside).iter().map(|cycle| shown(cycle)));
    complaints
}

/// Returns complaints about files to which no `mod` leads, because such files would pass whatever they import.
fn unread(files: &BTreeMap<String, String>, tree: &Tree) -> Vec<String> {
    let read: BTreeSet<_> = tree.modules.iter().map(|module| &module.file).collect();
    files
        .keys()
        .filter(|&file| !read.contains(file))
        .map(|file| format!("src/{file} is no module of the crate"))
        .collect()
}

/// Returns complaints about imports that the order does not allow: for each file and each part that it imports, only the first import.
fn upward(edges: &[Edge<'_>]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut complaints = Vec::new();
    for edge in edges {
        let (part, other) = (part(edge.from), part(edge.to));
        if part == other || part == "lib" || !seen.insert((edge.from, other)) {
            continue;
        }
        let may = match ORDER.iter().find(|(name, _)| *name == part) {
            Some((_, used)) if used.contains(&other) => continue,
            Some((_, [])) => format!("{part} may use no other part"),
            Some((_, used)) => format!("{part} may use {}", used.join(", ")),
            None => format!("{part} has no place in the order yet"),
        };
        complaints.push(format!("src/{}:{} imports {other} (`{}`): {may}", edge.from, edge.line, edge.path));
    }
    complaints
}

/// Returns the folder or file in `src` to which a file belongs.
fn part(file: &str) -> &str {
    let first = file.split_once('/').map_or(file, |(folder, _)| folder);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn shown(cycle: &[&Edge<'_>]) -> String {
    let steps: String =
        cycle.iter().map(|edge| format!("src/{}:{} (`{}`) -> ", edge.from, edge.line, edge.path)).collect();
    format!("cycle: {steps}src/{}", cycle.first().unwrap().from)
}
