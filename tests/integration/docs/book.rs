//! The documentation is a book, and its table of contents lists all pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::operations::all_pages;
use crate::support::root;

#[test]
fn the_table_of_contents_has_every_page_once() {
    let summary = root().join("docs/SUMMARY.md");
    let text = fs::read_to_string(&summary).unwrap();
    let links = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let listed: Vec<PathBuf> =
        links.map(|link| root().join("docs").join(link).canonicalize().unwrap()).collect();
    let pages: BTreeSet<&PathBuf> = listed.iter().collect();
    assert_eq!(pages.len(), listed.len(), "a page is listed twice");
    for page in all_pages().iter().filter(|page| **page != summary) {
        assert!(pages.contains(&page.canonicalize().unwrap()), "SUMMARY.md lacks {}", page.display());
    }
}
