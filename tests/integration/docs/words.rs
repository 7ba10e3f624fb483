//! Pages keep to their budgets of words, which words.conf has: what a page gains has to be taken out elsewhere.

use std::fs;
use std::path::Path;

use crate::support::root;

fn words(path: &Path) -> usize {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().map(|file| words(&file.unwrap().path())).sum();
    }
    let text = fs::read_to_string(path).unwrap();
    let written = text
        .split("scripts/bench --pages writes them -->")
        .map(|part| part.split_once("<!-- end of").map_or(part, |(_, rest)| rest));
    written.map(|part| part.split_whitespace().count()).sum()
}

#[test]
fn no_page_is_longer_than_its_budget() {
    let budgets = include_str!("words.conf").lines().filter(|line| !line.starts_with('#'));
    let over: Vec<String> = budgets
        .filter_map(|line| {
            let (most, page) = line.split_once(' ').unwrap();
            let (most, page) = (most.parse::<usize>().unwrap(), page.trim());
            let words = words(&root().join(page));
            (words > most).then(|| format!("{page}: {words} words, of {most}"))
        })
        .collect();
    assert!(over.is_empty(), "{}", over.join("\n"));
}
