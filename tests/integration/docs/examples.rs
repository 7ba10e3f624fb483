//! The terminal sessions in the pages and the README are what the command-line client shows.
//!
//! Each session is typed anew, on a server of its own. Values that differ each time are compared by their kind: a fence stands for the same
//! grant throughout a page, a UUID for any UUID, and a remaining time must not exceed the time on the page.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::Command;

use redis::Value;

use super::page::{pages, pages_of_options};
use crate::support::{Client, Mailbox, Setup, Waiter, cli_program, root};

const PROMPT: &str = "    127.0.0.1:6379> ";

/// A typed command, and its output, which is empty if the command still waits.
struct Step {
    command: String,
    shown: Vec<String>,
    resp3: bool,
}

/// Returns the steps of the indented blocks with prompts. The line before a block says if the client is `redis-cli -3`.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut resp3, mut open) = (false, false);
    for line in text.lines() {
        if let Some(command) = line.strip_prefix(PROMPT) {
            steps.push(Step { command: command.into(), shown: Vec::new(), resp3 });
            open = true;
        } else if let Some(shown) = line.strip_prefix("    ").filter(|_| open) {
            steps.last_mut().unwrap().shown.push(shown.into());
        } else {
            open = false;
            if !line.is_empty() {
                resp3 = line.contains("redis-cli -3");
            }
        }
    }
    steps
}

/// The fences of a page, each with its value in this run.
#[derive(Default)]
struct Fences(HashMap<i64, i64>);

impl Fences {
    /// Returns the command with this run's fences instead of the page's.
    fn replace(&self, command: &str) -> String {
        let words = command.split_whitespace().map(|word| {
            let known = word.parse().ok().and_then(|fence| self.0.get(&fence));
            known.map_or(word.into(), ToString::to_string)
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether the line matches the page; `label` is the line before.
    fn is(&mut self, label: &str, line: &str, shown: &str) -> bool {
        const INTEGER: &str = "(integer) ";
        if let (Some((before, number)), Some((shown_before, shown_number))) =
            (line.split_once(INTEGER), shown.split_once(INTEGER))
        {
            let label = if before.contains("=>") { before } else { label };
            return before == shown_before
                && self.is_number(label, number.parse().unwrap(), shown_number.parse().unwrap());
        }
        match (uuid(line), uuid(shown)) {
            (Some((before, after)), Some(shown)) => (before, after) == shown,
            _ => line == shown,
        }
    }

    fn is_number(&mut self, label: &str, number: i64, shown: i64) -> bool {
        const A_FENCE: i64 = 1 << 50;
        if ["client-id", "held-ms", "waited-ms", "last-wait-ms"].iter().any(|name| label.contains(name)) {
            number >= 0
        } else if shown > A_FENCE {
            let greatest = self.0.values().max().copied().unwrap_or(A_FENCE);
            let known = self.0.get(&shown).copied();
            self.0.insert(shown, number);
            known.map_or(number > greatest, |known| number == known)
        } else if shown > 1000 && shown % 1000 > 0 {
            // The remaining time of a lease of some tens of seconds.
            (1..=(shown / 10_000 + 1) * 10_000).contains(&number)
        } else {
            number == shown
        }
    }
}

/// Returns what is around a UUID of version 4 in the line.
fn uuid(line: &str) -> Option<(&str, &str)> {
    let (before, rest) = line.split_once('"')?;
    let (text, after) = rest.split_once('"')?;
    let parts: Vec<_> = text.split('-').collect();
    let fits = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts[2].starts_with('4')
        && text.chars().all(|sign| sign == '-' || sign.is_ascii_hexdigit());
    fits.then_some((before, after))
}

/// Types the whole session, and compares the output.
#[track_caller]
fn type_in(page: &str, text: &str) {
    let steps = steps(text);
    assert!(!steps.is_empty(), "{page}: no session");
    let server = Setup::new().module_args("default-lease 30000").start();
    let (mut fences, mut waiters, mut queued) = (Fences::default(), Vec::new(), Vec::new());
    for step in steps {
        let command = fences.replace(&step.command);
        if step.shown.is_empty() {
            waiters.push(Waiter::of_words(&server, server.client(), command.split(' ')));
            continue;
        }
        if step.shown == ["QUEUED"] {
            // The connection stays open, so the place is kept.
            let mut client = server.client();
            assert_eq!(client.ask::<String>(&command), "QUEUED", "{page}: {command}");
            queued.push(client);
            continue;
        }
        let mut cli = Command::new(cli_program());
        cli.args(["--no-raw", "-p", &server.port().to_string()]);
        cli.args(step.resp3.then_some("-3")).args(command.split(' '));
        let output = cli.output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<_> = output.trim_end().lines().map(str::trim_end).collect();
        let before = [""].into_iter().chain(lines.iter().copied());
        let same = lines.len() == step.shown.len()
            && lines
                .iter()
                .zip(before)
                .zip(&step.shown)
                .all(|((line, label), shown)| fences.is(label, line, shown));
        assert!(same, "{page}: {command}\nis:\n{}\n\nshown:\n{}", lines.join("\n"), step.shown.join("\n"));
    }
}

#[test]
fn the_examples_of_the_pages_are_real() {
    for page in pages() {
        assert!(!steps(page.section("Examples")).is_empty(), "{}", page.command);
        type_in(&page.command, &page.text);
    }
    let sessions = pages_of_options().into_iter().filter(|(_, text)| !steps(text).is_empty());
    let typed = sessions.map(|(option, text)| type_in(&option, &text)).count();
    assert!(typed > 0, "no session on the pages of options");
}

/// Sessions with several connections: `A> command`, its output, and `A< message  channel  "text"` for a subscriber.
#[test]
fn the_sessions_of_several_connections_are_real() {
    let server = Setup::new().module_args("default-lease 30000").start();
    let (mut clients, mut mail) = (BTreeMap::<u8, Client>::new(), BTreeMap::<u8, Mailbox>::new());
    let (mut fences, mut reply) = (Fences::default(), String::new());
    let text = fs::read_to_string(root().join("docs/commands/notify.md")).unwrap();
    let mut same = |is: &str, shown: &str| {
        let words = |text: &str| text.split([' ', ',']).map(String::from).collect::<Vec<_>>();
        let (is, shown) = (words(is), words(shown));
        let pairs = is.iter().zip(&shown).all(|(word, shown)| match (word.parse(), shown.parse()) {
            (Ok(number), Ok(shown)) => fences.is_number("", number, shown),
            _ => word == shown,
        });
        (pairs && is.len() == shown.len()).then(|| Fences(fences.0.clone()))
    };
    let (mut known, mut messages) = (Fences::default(), 0);
    for line in text.lines() {
        match line.as_bytes() {
            [b' ', b' ', b' ', b' ', name, b'>', b' ', ..] => {
                let command = known.replace(&line[7..]);
                if let Some(channel) = command.strip_prefix("SUBSCRIBE ") {
                    mail.insert(*name, Mailbox::of(&server, channel));
                    continue;
                }
                let client = clients.entry(*name).or_insert_with(|| server.client());
                reply = shown(client.send(&command).unwrap());
            }
            [b' ', b' ', b' ', b' ', name, b'<', b' ', ..] => {
                let expected = line.split('"').nth(1).unwrap();
                known = same(&mail.get_mut(name).unwrap().next(), expected).expect(line);
                messages += 1;
            }
            _ if line.starts_with("       ") => known = same(&reply, line.trim()).expect(line),
            _ => {}
        }
    }
    assert!(messages >= 2, "{messages}");
}

/// A reply in one line.
fn shown(reply: Value) -> String {
    match reply {
        Value::Array(parts) => parts.into_iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
        Value::SimpleString(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_session_of_the_readme_is_real() {
    type_in("README.md", &fs::read_to_string(root().join("README.md")).unwrap());
}
