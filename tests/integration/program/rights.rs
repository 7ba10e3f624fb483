//! The table of rights in docs/operations/secure.md: a subcommand works with the rights in its row. Without any one of them, it names the
//! missing one.

use std::fs;

use super::top::Screen;
use super::{Ran, command, ended, url};
use crate::support::{Server, Setup, root};

/// Returns the rights in a row.
fn rights(subcommand: &str) -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/operations/secure.md")).unwrap();
    let row = page.lines().find_map(|line| line.strip_prefix(&format!("| `{subcommand}` | `"))).unwrap();
    row.trim_end_matches("` |").replace("\\|", "|").split(' ').map(str::to_owned).collect()
}

fn ran(server: &Server, words: &[&str]) -> Ran {
    let mut command = command(&url(server), words);
    command.env("REDISLOCK_USER", "guest").env("REDISLOCK_PASSWORD", "x");
    ended(command)
}

/// Returns a server with a user with these rights, where alice holds `k`.
fn server_with(rights: &[String]) -> Server {
    let (server, mut client) = Server::held();
    client.ask::<()>(&format!("ACL SETUSER guest on >x {}", rights.join(" ")));
    server
}

/// Returns the name of a right in the errors of the server or the program.
fn named(right: &str) -> String {
    match right.as_bytes()[0] {
        b'+' => format!("'{}'", &right[1..]),
        b'&' => "channel".to_owned(),
        _ => "key".to_owned(),
    }
}

#[track_caller]
fn each_right_is_needed(subcommand: &str, words: &[&str]) {
    let all = rights(subcommand);
    let with = ran(&server_with(&all), words);
    assert_eq!(with.code, Some(0), "{with:?}");
    for right in &all {
        let others: Vec<_> = all.iter().filter(|other| *other != right).cloned().collect();
        let without = ran(&server_with(&others), words);
        assert_eq!(without.code, Some(77), "without {right}: {without:?}");
        assert!(without.err.contains(&named(right)), "without {right}: {without:?}");
    }
}

#[test]
fn run_needs_the_rights_of_its_page() {
    each_right_is_needed("run", &["run", "free", "--", "true"]);
}

#[test]
fn run_with_several_locks_needs_the_rights_of_its_page() {
    each_right_is_needed("run --all", &["run", "free", "--all", "other", "--", "true"]);
}

#[test]
fn run_once_in_a_period_needs_the_rights_of_its_page() {
    each_right_is_needed("run --once-per", &["run", "free", "--once-per", "1h", "--", "true"]);
}

#[test]
fn ls_show_and_break_need_the_rights_of_their_page() {
    each_right_is_needed("ls", &["ls"]);
    each_right_is_needed("show", &["show", "k"]);
    each_right_is_needed("break", &["break", "k", "--yes"]);
}

#[test]
fn bench_needs_the_rights_of_its_page() {
    each_right_is_needed("bench", &["bench", "--time", "20ms", "--clients", "2"]);
}

#[test]
fn doctor_needs_the_rights_of_its_page() {
    let setup = || Setup::new().set("appendonly", "yes").set("appendfsync", "always");
    let (primary, mut client) = setup().start_and_client();
    let replica = primary.replica_with(setup());
    let all = rights("doctor");
    for missing in [None].into_iter().chain(all.iter().map(Some)) {
        let others: Vec<_> = all.iter().filter(|right| Some(*right) != missing).cloned().collect();
        let rule = format!("ACL SETUSER guest reset on >x {}", others.join(" "));
        client.ask::<()>(&rule);
        replica.client().ask::<()>(&rule);
        let out = ran(&primary, &["doctor"]).out;
        assert_eq!(out.contains("not checked"), missing.is_some(), "without {missing:?}: {out}");
        if let Some(right) = missing {
            assert!(out.contains(&named(right)), "without {right}: {out}");
        }
    }
}

#[test]
fn top_needs_the_rights_of_its_page() {
    let all = rights("top");
    for missing in [None].into_iter().chain(all.iter().map(Some)) {
        let others: Vec<_> = all.iter().filter(|right| Some(*right) != missing).cloned().collect();
        let server = server_with(&others);
        server.client().ask::<()>("LOCK.ACQUIRE l OWNER bob LABEL nightly"); // a user that can only read sees no owners
        let url = url(&server).replace("://", "://guest:x@");
        let screen = Screen::start(&url, &["top", "--every", "100ms"]);
        screen.shows(&missing.map_or("nightly".to_owned(), |right| named(right)));
    }
}
