//! Pages keep to their budgets of words, which words.conf has: what a page gains has to be taken out elsewhere.

use std::fs;
use std::process::Command;

use crate::support::root;

/// The words of the page, without the tables that a program writes between two comments.
fn words(page: &str) -> usize {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let (mut words, mut by_hand) = (0, true);
    for line in text.lines() {
        if line.starts_with("<!--") {
            by_hand = line.starts_with("<!-- end of");
        } else if by_hand {
            words += line.split_whitespace().count();
        }
    }
    words
}

/// The pages that git finds by this pattern: `docs/operations`, `*.md :!docs/bench/`.
fn pages(pattern: &str) -> String {
    let mut git = Command::new("git");
    let output =
        git.arg("-C").arg(root()).args(["ls-files", "--"]).args(pattern.split(' ')).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty(), "{pattern}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn no_page_is_longer_than_its_budget() {
    let budgets = include_str!("words.conf").lines().filter(|line| !line.starts_with('#'));
    let over: Vec<String> = budgets
        .filter_map(|line| {
            let (most, pattern) = line.split_once(' ').unwrap();
            let (most, pattern) = (most.parse::<usize>().unwrap(), pattern.trim());
            let words = pages(pattern).lines().map(words).sum::<usize>();
            (words > most).then(|| format!("{pattern}: {words} words, of {most}"))
        })
        .collect();
    assert!(over.is_empty(), "{}", over.join("\n"));
}
