//! Pages keep within their limits of words in words.conf: to lengthen a page, shorten it elsewhere.

use std::fs;
use std::process::Command;

use crate::support::root;

/// Counts the words of a page, without generated tables, which stand between two comments.
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

/// Returns the pages that git finds by a pattern such as `docs/operations` or `*.md :!docs/bench/`.
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
