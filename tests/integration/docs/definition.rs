//! What the server shows of the commands is what their pages say, and what their parsers accept.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use super::page::{Page, pages};
use super::shown::Shown;
use crate::support::{Client, Server, cli_program, root};

const INTERNAL: [&str; 2] = ["lock.apply", "lock.settle"];

/// Calls `check` for every page and what the server shows of its command.
#[track_caller]
fn each(mut check: impl FnMut(&mut Client, &Page, &Shown)) {
    let server = Server::start();
    // RESP2 shows arrays, RESP3 maps.
    for mut client in [server.client(), server.client_resp3()] {
        for page in pages() {
            let shown = Shown::of(&mut client, &page.command);
            check(&mut client, &page, &shown);
        }
    }
}

#[test]
fn every_command_for_clients_has_a_page() {
    let server = Server::start();
    let mut commands: BTreeSet<String> = server.client().ask("COMMAND LIST FILTERBY MODULE lock");
    for internal in INTERNAL {
        assert!(commands.remove(internal), "{internal}");
    }
    // Only a debug build has this command; see `faults::the_released_module_has_none_of_it`.
    commands.remove("lock.fault");
    let pages: BTreeSet<_> = pages().iter().map(|page| page.command.to_lowercase()).collect();
    assert_eq!(commands, pages);
}

#[test]
fn syntax_summary_complexity_and_history_are_those_of_the_page() {
    each(|_, page, shown| {
        let command = &page.command;
        let words: Vec<_> = shown.arguments().iter().map(|argument| argument.written()).collect();
        let syntax = format!("{command} {}", words.join(" "));
        assert_eq!(syntax, page.syntax(), "COMMAND DOCS, and the page");
        assert_eq!(shown.text("summary"), page.summary(), "COMMAND DOCS, and the page of {command}");
        assert_eq!(shown.text("complexity"), page.section("Complexity").replace('`', ""), "{command}");
        assert_eq!(format!("Since {}.", shown.text("since")), page.section("History"), "{command}");
        assert!(!shown.docs.contains_key("history"), "{command}: a history that the page has not");
        assert_eq!(shown.text("group"), "module", "{command}");
        assert_eq!(shown.text("module"), "lock", "{command}");
    });
}

/// The letters in `O(K log N)` must be explained, as in "for K locks" or "H holders".
#[test]
fn a_complexity_says_what_its_letters_are() {
    each(|_, page, shown| {
        let complexity = shown.text("complexity");
        let inner = complexity.split("O(").skip(1).map(|part| part.split_once(')').unwrap().0);
        let is_letter = |word: &&str| matches!(word.as_bytes(), [b'A'..=b'Z']);
        let used: BTreeSet<_> = inner.flat_map(|cost| cost.split([' ', '+'])).filter(is_letter).collect();
        let words: Vec<_> = complexity.split([' ', '(', ')']).collect();
        let explains = |pair: &[&str]| {
            is_letter(&pair[0]) && pair[1].len() > 3 && pair[1].starts_with(|sign: char| sign.is_lowercase())
                || pair[0] == "which" && is_letter(&pair[1])
        };
        let explained = words.windows(2).filter(|pair| explains(pair));
        let explained: BTreeSet<_> = explained.flatten().copied().filter(is_letter).collect();
        assert!(used.is_subset(&explained), "{}: {complexity}", page.command);
    });
}

/// Returns the options' words of a syntax. The names of their values may be shorter in an overview.
fn option_words(syntax: &str) -> Vec<&str> {
    let words = syntax.split(|sign: char| "[]| \\".contains(sign));
    words.filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase())).collect()
}

/// Returns the rows of a page's table of commands: each command and its short syntax.
fn rows(page: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| [`")?.split_once("`]("));
    rows.map(|(command, rest)| (command.into(), rest.split('`').nth(1).unwrap().into())).collect()
}

#[test]
fn the_overview_has_each_command_with_its_options() {
    let overview: BTreeMap<_, _> = rows("docs/commands.md").into_iter().collect();
    let commands: BTreeSet<_> = pages().into_iter().map(|page| page.command).collect();
    assert_eq!(overview.keys().cloned().collect::<BTreeSet<_>>(), commands);
    for page in pages() {
        let syntax = &overview[&page.command];
        if !syntax.contains("[options of ") {
            let words = (option_words(syntax), option_words(page.syntax()));
            assert_eq!(words.0, words.1, "docs/commands.md, and the page of {}", page.command);
        }
    }
}

#[test]
fn every_option_is_explained() {
    each(|_, page, shown| {
        let options = shown.arguments().into_iter().filter(|argument| argument.optional);
        let options: BTreeSet<_> = options
            .flat_map(|option| option.bare().split(" | ").map(String::from).collect::<Vec<_>>())
            .collect();
        if options.is_empty() && !page.text.contains("\n## Options\n") {
            return;
        }
        let explained: BTreeSet<_> = page.first_column("Options").into_iter().map(String::from).collect();
        assert_eq!(options, explained, "COMMAND DOCS, and the table of options of {}", page.command);
    });
}

#[test]
fn a_page_has_all_its_sections() {
    for page in pages() {
        for protocol in ["RESP2", "RESP3"] {
            assert!(page.section("Reply").contains(protocol), "{}: {protocol}", page.command);
        }
        assert!(page.first_column("Errors").len() > 2, "{}", page.command);
        assert!(page.section("Examples").contains("127.0.0.1:6379> "), "{}", page.command);
    }
}

#[test]
fn the_arity_is_that_of_the_required_arguments() {
    each(|client, page, shown| {
        let arguments = shown.arguments();
        let required = arguments.iter().filter(|argument| !argument.optional).count();
        let is_open = arguments.iter().any(|argument| argument.optional || argument.multiple);
        let words = i64::try_from(required + 1).unwrap();
        assert_eq!(shown.arity, if is_open { -words } else { words }, "{}", page.command);
        let name = page.command.to_lowercase();
        if required == 0 {
            return;
        }
        let error = format!("ERR wrong number of arguments for '{name}' command");
        assert_eq!(client.refused(&format!("{name}{}", " x".repeat(required - 1))), error);
        assert!(page.first_column("Errors").contains(&error[..]), "{name}");
    });
}

/// Returns a value for an argument with this name.
fn value(name: &str) -> String {
    match name {
        "numkeys" => "1",
        "text" => "x",
        "key" => "k",
        "owner" => "alice",
        "channel" => "ch",
        "seconds" => "60",
        "milliseconds" => "60000",
        "fence" => "1",
        "holders" | "count" => "10",
        "cursor" => "0",
        "slot" => "3",
        "number" => "7",
        // No replica confirms this, so the timeout is short.
        "sync" => "1 1",
        _ => panic!("say here which value to try for {name}"),
    }
    .into()
}

#[test]
fn every_option_is_taken_once_and_nothing_else_is() {
    each(|client, page, shown| {
        let arguments = shown.arguments();
        let (required, options): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| !argument.optional);
        let mut bare = page.command.clone();
        for argument in required {
            bare += &argument.ways(value)[0];
        }
        // Checks only whether the parser accepts the words. The lock is free, so nothing waits.
        let mut taken = |words: &str| {
            client.ask::<()>("FLUSHALL");
            let error = client.send(words).err().unwrap_or_default();
            !error.starts_with("ERR syntax error") && !error.starts_with("ERR wrong number of arguments")
        };
        let (mut all, mut backwards) = (bare.clone(), bare.clone());
        for option in &options {
            let ways = option.ways(value);
            for one in &ways {
                assert!(taken(&format!("{bare} {one}")), "{bare} {one}");
                assert!(taken(&format!("{bare} {}", one.to_lowercase())), "{bare} {one}");
                for other in &ways {
                    assert!(!taken(&format!("{bare} {one} {other}")), "{bare} {one} {other}");
                }
                if let Some((word, _)) = one.split_once(' ') {
                    assert!(word.is_empty() || !taken(&format!("{bare} {word}")), "{bare} {word}");
                }
            }
            all += &format!(" {}", ways[0]);
        }
        for option in options.iter().rev() {
            // `START` can't be combined with `SESSION` or `SYNC`: see `notify::start::what_is_refused_changes_nothing`.
            let mut ways = option.ways(value).into_iter().rev();
            backwards += &format!(" {}", ways.find(|way| !way.contains(" START ")).unwrap());
        }
        assert!(taken(&all), "{all}");
        assert!(taken(&backwards), "{backwards}");
        assert!(!taken(&format!("{all} NX")), "{all} NX");
    });
}

#[test]
fn the_key_is_the_first_argument_or_after_its_word_or_as_many_follow_as_the_first_says() {
    each(|client, page, shown| {
        let keys: Vec<String> = client.ask(&format!("COMMAND GETKEYS {}", page.with_keys(["k", "l"])));
        if page.counts_keys() {
            assert_eq!(shown.keys, (0, 0, 0), "{}", page.command);
            assert!(shown.flags.contains("movablekeys"), "{}", page.command);
            assert_eq!(keys, ["k", "l"], "{}", page.command);
        } else {
            let place = if page.names_key() { (0, 0, 0) } else { (1, 1, 1) };
            assert_eq!(shown.keys, place, "{}", page.command);
            assert_eq!(keys, ["k"], "{}", page.command);
        }
    });
}

#[test]
fn the_key_specs_say_what_each_command_does_with_the_key() {
    let server = Server::start();
    let mut client = server.client();
    for (command, used) in [
        ("LOCK.ACQUIRE", "RW access update"),
        ("LOCK.RELEASE", "RW access delete"),
        ("LOCK.EXTEND", "RW update"),
        ("LOCK.MACQUIRE", "RW access update"),
        ("LOCK.MRELEASE", "RW access delete"),
        ("LOCK.MEXTEND", "RW update"),
        ("LOCK.LEAVE", "RW access delete"),
        ("LOCK.INFO", "RO access"),
        ("LOCK.WAITS", "RO access"),
        ("LOCK.BREAK", "RW delete"),
    ] {
        let page = pages().into_iter().find(|page| page.command == command).unwrap();
        let line = format!("COMMAND GETKEYSANDFLAGS {}", page.with_keys(["k", "l"]));
        let used: BTreeSet<_> = used.split(' ').map(String::from).collect();
        let keys: &[&str] = if page.counts_keys() { &["k", "l"] } else { &["k"] };
        let expected: Vec<_> = keys.iter().map(|key| (String::from(*key), used.clone())).collect();
        assert_eq!(client.ask::<Vec<(String, BTreeSet<String>)>>(&line), expected, "{line}");
    }
}

#[test]
fn flags_and_tips_say_what_clients_must_know() {
    let server = Server::start();
    let mut client = server.client();
    for (command, flags, tips) in [
        ("LOCK.ACQUIRE", "write denyoom blocking", "nondeterministic_output"),
        ("LOCK.RELEASE", "write fast", ""),
        ("LOCK.EXTEND", "write fast blocking", "nondeterministic_output"),
        ("LOCK.MACQUIRE", "write denyoom blocking movablekeys", "nondeterministic_output"),
        ("LOCK.MRELEASE", "write movablekeys", ""),
        ("LOCK.MEXTEND", "write blocking movablekeys", "nondeterministic_output"),
        ("LOCK.INFO", "readonly", "nondeterministic_output"),
        ("LOCK.WAITS", "readonly admin movablekeys", "nondeterministic_output"),
        ("LOCK.BREAK", "write admin fast", ""),
        ("LOCK.APPLY", "write fast", ""),
        ("LOCK.SETTLE", "write fast", ""),
    ] {
        let shown = Shown::of(&mut client, command);
        let flags: BTreeSet<_> = flags.split(' ').chain(["module"]).map(String::from).collect();
        assert_eq!(shown.flags, flags, "{command}");
        assert_eq!(shown.tips.join(" "), tips, "{command}");
    }
}

#[test]
fn the_modules_own_commands_say_that_they_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    for command in INTERNAL {
        let summary = Shown::of(&mut client, command).text("summary");
        assert!(summary.starts_with("Internal, refused from clients: "), "{summary}");
        let error = "ERR this command is the module's own and not for clients";
        assert_eq!(client.refused(&format!("{command} 0 k")), error);
    }
}

#[test]
fn the_command_line_client_shows_the_syntax() {
    let server = Server::start();
    for page in pages() {
        let mut cli = Command::new(cli_program());
        let shown = cli.args(["-p", &server.port().to_string(), "help", &page.command]).output().unwrap();
        let shown = plain(&String::from_utf8(shown.stdout).unwrap());
        // `HELP` shows no blanks around the sign for "or".
        for text in [page.syntax().replace(" | ", "|"), format!("summary: {}", page.summary())] {
            assert!(shown.contains(&text), "the page has:\n{text}\nHELP shows:{shown}");
        }
    }
}

/// The text without colours.
fn plain(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest));
    [first].into_iter().chain(rest).collect()
}
