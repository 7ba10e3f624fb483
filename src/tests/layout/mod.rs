//! How the parts of the source stand on each other: imports go down only, and no files stand in a circle.
//!
//! The compiler takes any import within a crate. What keeps `lock` free of the server, and a file readable with nothing but
//! what stands below it, is this test. Where the methods of one type stand in several files, their calls on `self` go down too. Other
//! calls of methods are not seen, since their names do not say where they are defined: but a type that holds another one, or is lent
//! one, imports it. Names that a macro makes up count for the file that calls it.

mod checks;
mod circles;
mod edges;
mod names;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use circles::circles;
use edges::{Edge, edges};
use source::Tree;

/// Each part, and which others it may use, all of them further down here. Tests, fuzzers and the table of contents in `lib.rs` may use any.
const ORDER: &[(&str, &[&str])] = &[
    ("info", &["keyspace", "lock", "server", "serving", "stats", "waiting"]),
    ("commands", &["config", "error", "keyspace", "lock", "reply", "server", "serving", "stats", "waiting"]),
    ("serving", &["config", "error", "keyspace", "lock", "reply", "server", "stats", "waiting"]),
    ("reply", &["error", "lock", "server"]),
    ("error", &["keyspace", "lock", "server", "waiting"]),
    ("config", &["lock", "server"]),
    ("keyspace", &["lock", "server", "stats"]),
    ("waiting", &["lock"]),
    ("lock", &[]),
    ("server", &[]),
    ("stats", &[]),
];

#[test]
fn imports_go_down_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = BTreeMap::new();
    read(&src, &src, &mut files);
    let complaints = complaints(&files);
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn the_order_goes_down_only() {
    let place = |part: &str| ORDER.iter().position(|(name, _)| *name == part);
    for (part, used) in ORDER {
        assert!(used.iter().all(|other| place(other) > place(part)), "{part}");
    }
}

/// All source files in a folder, by their path from `src`.
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

/// The faults in the layout of a source tree: its files by their path, and their text.
fn complaints(files: &BTreeMap<String, String>) -> Vec<String> {
    let tree = Tree::read(files);
    let edges = edges(&tree);
    let mut complaints = unread(files, &tree);
    complaints.extend(upward(&edges));
    // A circle through several parts has an upward import in it, which is said already.
    let inside = edges.iter().filter(|edge| edge.of_item && part(edge.from) == part(edge.to));
    complaints.extend(circles(inside).iter().map(|circle| shown(circle)));
    complaints
}

/// A file that no `mod` leads to would pass whatever it imports.
fn unread(files: &BTreeMap<String, String>, tree: &Tree) -> Vec<String> {
    let read: BTreeSet<_> = tree.modules.iter().map(|module| &module.file).collect();
    files
        .keys()
        .filter(|&file| !read.contains(file))
        .map(|file| format!("src/{file} is no module of the crate"))
        .collect()
}

/// The imports that the order does not allow; of those from one file to one part the first.
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

/// The folder or file in `src` that a file belongs to.
fn part(file: &str) -> &str {
    let first = file.split_once('/').map_or(file, |(folder, _)| folder);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn shown(circle: &[&Edge<'_>]) -> String {
    let steps: String =
        circle.iter().map(|edge| format!("src/{}:{} (`{}`) -> ", edge.from, edge.line, edge.path)).collect();
    format!("circle: {steps}src/{}", circle.first().unwrap().from)
}
