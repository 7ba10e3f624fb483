//! Who may run which command: ACL categories and key permissions are as documented.

use std::collections::BTreeSet;
use std::fs;

use super::page::pages;
use super::shown::Shown;
use crate::support::{Client, Server, Setup, module_path, root};

/// Whether modules can put commands into ACL categories on this server, and whether they can add a category.
fn takes_categories(client: &mut Client) -> bool {
    let categories: Vec<String> = client.ask("ACL CAT");
    categories.iter().any(|category| category == "lock")
}

/// Whether the user may run the command; other errors do not matter.
#[track_caller]
fn allowed(client: &mut Client, command: &str) -> bool {
    match client.send(command) {
        Err(error) => !error.starts_with("NOPERM"),
        Ok(_) => true,
    }
}

#[test]
fn the_categories_are_those_of_the_page() {
    let (_server, mut client) = Server::and_client();
    let has_any = takes_categories(&mut client);
    for page in pages() {
        let shown = Shown::of(&mut client, &page.command).categories;
        let documented: BTreeSet<_> = page.marked("Access", '@').into_iter().map(String::from).collect();
        assert_eq!(shown, if has_any { documented } else { BTreeSet::new() }, "{}", page.command);
    }
}

#[test]
fn the_table_for_operators_is_that_of_the_pages() {
    let operations = fs::read_to_string(root().join("docs/operations/secure.md")).unwrap();
    for page in pages() {
        let row = operations.lines().find(|line| line.starts_with(&format!("| `{}` | `@", page.command)));
        let row = row.unwrap_or_else(|| panic!("{} is not in the table", page.command));
        let marked: BTreeSet<_> = row.split('`').skip(3).step_by(2).collect();
        let documented: BTreeSet<_> =
            page.marked("Access", '@').union(&page.marked("Access", '%')).copied().collect();
        assert_eq!(marked, documented, "{row}");
    }
}

/// Redis before 7.4 can't have a category of a module; every other server can.
#[test]
fn the_category_of_the_module_is_there_where_the_server_can_have_it() {
    let (server, mut client) = Server::and_client();
    let can = client.version() >= (7, 4) || !client.info("server", "valkey_version").is_empty();
    assert_eq!(takes_categories(&mut client), can);
    assert!(!server.log().contains("ACL categor"), "{}", server.log());
    if can {
        let members: BTreeSet<String> = client.ask("ACL CAT lock");
        let commands = pages().into_iter().map(|page| page.command.to_lowercase());
        assert_eq!(members, commands.collect::<BTreeSet<_>>());
    }
}

#[test]
fn rules_by_category_allow_and_forbid() {
    let server = Server::start();
    if !takes_categories(&mut server.client()) {
        return;
    }
    const ALL: &str = "ACQUIRE RELEASE EXTEND MACQUIRE MRELEASE MEXTEND INFO";
    for (rules, may, may_not) in [
        ("~* +@lock", [ALL, "BREAK WAITS"], "APPLY SETTLE"),
        ("~* +@lock -@dangerous", [ALL, ""], "BREAK WAITS APPLY SETTLE"),
        ("~* +@all -@lock", ["", ""], &format!("{ALL} BREAK WAITS")[..]),
        ("~* +@all -@dangerous", [ALL, ""], "BREAK WAITS APPLY SETTLE"),
        ("~* +@all -@admin", [ALL, ""], "BREAK WAITS APPLY SETTLE"),
        ("~* +@all -@blocking", ["RELEASE MRELEASE INFO", "BREAK WAITS"], "ACQUIRE MACQUIRE EXTEND MEXTEND"),
        (
            "~* +@read",
            ["INFO", ""],
            "ACQUIRE RELEASE EXTEND MACQUIRE MRELEASE MEXTEND BREAK WAITS APPLY SETTLE",
        ),
        (
            "~* +@fast -@dangerous",
            ["RELEASE EXTEND", ""],
            "ACQUIRE MACQUIRE MRELEASE MEXTEND INFO BREAK WAITS APPLY SETTLE",
        ),
    ] {
        let mut client = server.client_of(rules);
        for (commands, expected) in [(&may.join(" ")[..], true), (may_not, false)] {
            for command in commands.split_whitespace() {
                let keys = match command {
                    "SETTLE" => "0 k",
                    "WAITS" => "KEY k",
                    _ if command.starts_with('M') => "1 k",
                    _ => "k",
                };
                let owner =
                    if command.ends_with("RELEASE") || command.ends_with("EXTEND") { " alice" } else { "" };
                let line = format!("LOCK.{command} {keys}{owner}");
                assert_eq!(allowed(&mut client, &line), expected, "{rules}: {line}");
            }
        }
    }
}

#[test]
fn a_key_pattern_must_allow_what_the_page_says() {
    let server = Server::start();
    for page in pages() {
        let documented = page.marked("Access", '%');
        let mut needed: Vec<_> = documented.into_iter().collect();
        let needed = needed.pop().filter(|_| needed.is_empty()).expect("one key permission");
        let line = page.with_keys(["app:k", "app:l"]);
        for (granted, reads, writes) in [("%R~", true, false), ("%W~", false, true), ("%RW~", true, true)] {
            let mut client = server.client_of(&format!("+@all {granted}app:*"));
            let suffices = (reads || !needed.contains('R')) && (writes || !needed.contains('W'));
            assert_eq!(allowed(&mut client, &line), suffices, "{granted}: {line}");
            for key in ["app:k", "app:l"].into_iter().filter(|key| line.contains(key)) {
                let line = line.replace(key, "other");
                assert!(!allowed(&mut client, &line), "{granted}: {line}");
            }
        }
    }
}

/// The server reads its users before it loads modules.
#[test]
fn the_configuration_may_have_users_by_category_and_by_command() {
    let by_command = "user guest on nopass ~* +lock.acquire";
    let by_category = "user guest on nopass ~* +@lock -@dangerous";
    let can = takes_categories(&mut Server::start().client());
    for rule in [by_command, by_category].into_iter().take(if can { 2 } else { 1 }) {
        let (name, rules) = rule.split_once(' ').unwrap();
        for setup in [
            Setup::new().set(name, rules),
            Setup::new().with_file("users.acl", format!("{rule}\n")).set("aclfile", "users.acl"),
        ] {
            let server = setup.start();
            let mut client = server.client();
            client.ask::<()>("AUTH guest x");
            client.acquire("k", "OWNER alice").unwrap();
            assert_eq!(allowed(&mut client, "LOCK.INFO k"), rule == by_category, "{rule}");
            assert!(!allowed(&mut client, "LOCK.BREAK k"), "{rule}");
        }
    }
}

#[test]
fn a_refused_load_leaves_no_category_behind() {
    let (server, mut client) = Setup::new().without_module().start_and_client();
    let path = module_path().to_str().unwrap();
    client.refused(&format!("MODULE LOAD {path} nothing 5"));
    assert!(!takes_categories(&mut client), "{}", server.log());
    client.ask::<()>(&format!("MODULE LOAD {path}"));
    assert_eq!(takes_categories(&mut client), takes_categories(&mut Server::start().client()));
    assert!(!server.log().contains("ACL categor"), "{}", server.log());
}

/// The user may read some keys and write others, by two patterns.
#[test]
fn a_user_may_look_at_all_locks_and_take_its_own() {
    let server = Server::start();
    let mut client = server.client_of("+lock.acquire +lock.release +lock.info %RW~app:* %R~*");
    let mut other = server.client();
    other.acquire("other:k", "OWNER bob").unwrap();
    client.acquire("app:k", "OWNER alice").unwrap();
    assert_eq!(client.holder("other:k").unwrap().owner, "", "it is what it takes to release the lock");
    assert_eq!(client.holder("app:k").unwrap().owner, "alice");
    assert!(!allowed(&mut client, "LOCK.RELEASE other:k bob"));
    assert!(!allowed(&mut client, "LOCK.ACQUIRE other:k OWNER bob"));
    assert_eq!(client.ask::<i64>("LOCK.RELEASE app:k alice"), 0);
    assert_eq!(other.holder("other:k").unwrap().owner, "bob");
}
