//! Tests the layout test itself: it must find each fault, and nothing else.

use super::complaints;

/// Returns the complaints about a source tree with these files.
fn judge(files: &[(&str, &str)]) -> Vec<String> {
    complaints(&files.iter().map(|&(file, text)| (file.to_owned(), text.to_owned())).collect())
}

const LIB: (&str, &str) = ("lib.rs", "mod commands; mod keyspace; mod lock; mod server;");

#[test]
fn imports_that_go_down_pass() {
    let complaints = judge(&[
        ("lib.rs", "mod commands; mod keyspace; mod stats; mod server; mod fuzzing; use commands::Acquire;"),
        ("fuzzing.rs", "use crate::commands::Acquire;"),
        ("commands.rs", "use crate::keyspace; pub(crate) struct Acquire; fn run() { keyspace::open() }"),
        (
            "keyspace/mod.rs",
            "mod key; pub(crate) use key::open; use crate::stats::Grant; fn make(_: Grant) {}",
        ),
        ("keyspace/key.rs", "use super::super::server::log; pub(crate) fn open() { log() }"),
        (
            "stats/mod.rs",
            "mod grant; mod time; #[cfg(test)] mod tests; pub(crate) use grant::Grant; pub(crate) use time::*;",
        ),
        ("stats/grant.rs", "use super::Micros; pub(crate) struct Grant(pub(in crate::stats) Micros);"),
        ("stats/time.rs", "pub(crate) type Micros = i64;"),
        ("stats/tests.rs", "use super::*; use crate::commands::Acquire;"),
        ("server.rs", "pub(crate) fn log() { let commands = 1; drop(commands); ::keyspace::log() }"),
    ]);
    assert_eq!(complaints, [""; 0]);
}

#[test]
fn an_upward_import_is_found() {
    let files = |lock| {
        [
            LIB,
            ("commands.rs", "pub(crate) fn reply() {} pub(crate) struct Reply;"),
            ("keyspace.rs", ""),
            ("lock.rs", lock),
            ("server.rs", ""),
        ]
    };
    let found = |path| [format!("src/lock.rs:2 imports commands (`{path}`): lock may use no other part")];
    for (text, path) in [
        ("\nuse crate::commands::reply;", "crate::commands::reply"),
        ("\nuse crate::{commands, server::log};", "crate::commands"),
        ("\npub(crate) use super::commands::*;", "super::commands"),
        ("\nfn run() { crate::commands::reply() }", "crate::commands::reply"),
        ("\nfn run(_: Option<super::commands::Reply>) {}", "super::commands::Reply"),
        ("\nfn run() { print!(\"{}\", crate::commands::reply()) }", "crate::commands::reply"),
        ("\nmacro_rules! reply { () => { $crate::commands::reply() } }", "crate::commands::reply"),
        ("\nmod inner { fn run() { super::super::commands::reply() } }", "super::super::commands::reply"),
    ] {
        let complaints: Vec<String> =
            judge(&files(text)).into_iter().filter(|line| line.contains("imports commands")).collect();
        assert_eq!(complaints, found(path), "{text}");
    }
}

#[test]
fn what_a_part_may_use_is_told() {
    let complaints = judge(&[
        LIB,
        ("commands.rs", "pub(crate) static MODULE: i32 = 1;"),
        ("keyspace.rs", "use crate::commands;"),
        ("lock.rs", ""),
        ("server.rs", "fn load() -> i32 { crate::MODULE }"),
        ("unread.rs", ""),
    ]);
    assert_eq!(
        complaints,
        [
            "src/unread.rs is no module of the crate",
            "src/keyspace.rs:1 imports commands (`crate::commands`): keyspace may use server, stats",
            "src/server.rs:1 imports lib (`crate::MODULE`): server may use no other part",
        ]
    );
    let complaints =
        judge(&[("lib.rs", "mod new; mod lock;"), ("new.rs", "use crate::lock;"), ("lock.rs", "")]);
    assert_eq!(complaints, ["src/new.rs:1 imports lock (`crate::lock`): new has no place in the order yet"]);
}

/// Returns the complaints about a folder `lock` with two files.
fn judge_pair(parent: &str, [one, two]: [&str; 2]) -> Vec<String> {
    let lib = ("lib.rs", "mod lock;");
    judge(&[lib, ("lock/mod.rs", parent), ("lock/one.rs", one), ("lock/two.rs", two)])
}

#[test]
fn a_circle_through_a_re_export_is_found() {
    let parent = "mod one; mod two; pub(crate) use one::One; pub(crate) use two::*;";
    let complaints =
        judge_pair(parent, ["use super::Two; pub struct One;", "use super::One; pub struct Two;"]);
    assert_eq!(
        complaints,
        ["cycle: src/lock/one.rs:1 (`super::Two`) -> src/lock/two.rs:1 (`super::One`) -> src/lock/one.rs"]
    );
    // Imports in one direction are no cycle, and nor is naming the module that re-exports.
    let complaints =
        judge_pair(parent, ["use super::Two; pub struct One;", "use crate::lock; pub struct Two;"]);
    assert_eq!(complaints, [""; 0]);
}

#[test]
fn a_circle_through_a_macro_is_found() {
    let parent = "#[macro_use] mod one; mod two; use two::two;";
    let complaints =
        judge_pair(parent, ["macro_rules! call { () => { super::two() } }", "pub fn two() { call!() }"]);
    assert_eq!(
        complaints,
        ["cycle: src/lock/one.rs:1 (`super::two`) -> src/lock/two.rs:1 (`call`) -> src/lock/one.rs"]
    );
}

#[test]
fn a_parent_that_uses_its_child_must_not_be_used_by_it() {
    let child = ["use super::COUNT; pub fn one() -> i32 { COUNT }", ""];
    let declares = "mod one; mod two; pub(crate) use one::one; static COUNT: i32 = 1;";
    assert_eq!(judge_pair(declares, child), [""; 0]);
    let uses = "mod one; mod two; static COUNT: i32 = 1;\nfn run() { one::one(); }";
    assert_eq!(
        judge_pair(uses, child),
        ["cycle: src/lock/mod.rs:2 (`one::one`) -> src/lock/one.rs:1 (`super::COUNT`) -> src/lock/mod.rs"]
    );
}

#[test]
fn a_circle_of_calls_on_one_type_is_found() {
    let parent = "mod one; mod two; pub(crate) struct Lock;";
    let one = "use super::Lock; impl Lock { pub fn take(&self) { (|| self.pass())() } pub fn end(&self) {} }";
    let call = "use super::Lock;\nimpl Lock { pub fn pass(&self) { self.end() } }";
    assert_eq!(
        judge_pair(parent, [one, call]),
        ["cycle: src/lock/one.rs:1 (`self.pass`) -> src/lock/two.rs:2 (`self.end`) -> src/lock/one.rs"]
    );
    // Calls in one direction are no cycle. Methods with this name on another type don't count, and nor do calls in tests.
    for two in [
        "use super::Lock; impl Lock { pub fn pass(&self) { self.last() } fn last(&self) {} }",
        "use super::Lock; impl Lock { pub fn pass(&self) {} } struct Two; impl Two { fn two(&self) { self.end() } }",
        "use super::Lock; impl Lock { pub fn pass(&self) {} }\n#[cfg(test)] impl Lock { fn test(&self) { self.end() } }",
    ] {
        assert_eq!(judge_pair(parent, [one, two]), [""; 0], "{two}");
    }
    let uses = "mod one; mod two; pub(crate) struct Lock; impl Lock { fn run(&self) { self.end() } }";
    assert_eq!(
        judge_pair(uses, [one, ""]),
        ["cycle: src/lock/mod.rs:1 (`self.end`) -> src/lock/one.rs:1 (`super::Lock`) -> src/lock/mod.rs"]
    );
}
