//! A page of `docs/commands`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::root;

/// The page of one command.
pub(super) struct Page {
    /// The command, as the title has it.
    pub(super) command: String,
    pub(super) text: String,
}

/// The files in the folder of those pages. Options that have a page of their own are there too.
fn files() -> Vec<PathBuf> {
    let folder = root().join("docs/commands");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_stem().unwrap().to_str().unwrap()
}

/// The pages of options: the name of each, and its text.
pub(super) fn pages_of_options() -> Vec<(String, String)> {
    let files = files().into_iter().filter(|path| !name(path).starts_with("lock."));
    files.map(|path| (name(&path).into(), fs::read_to_string(&path).unwrap())).collect()
}

/// Every page of a command.
pub(super) fn pages() -> Vec<Page> {
    let files = files().into_iter().filter(|path| name(path).starts_with("lock."));
    let mut pages: Vec<Page> = files
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let command = text.lines().next().unwrap().strip_prefix("# ").unwrap().to_owned();
            assert_eq!(name(&path), command.to_lowercase());
            Page { command, text }
        })
        .collect();
    pages.sort_by(|one, other| one.command.cmp(&other.command));
    pages
}

impl Page {
    /// The line below the title.
    pub(super) fn syntax(&self) -> &str {
        self.paragraph(1)
    }

    /// The first sentence.
    pub(super) fn summary(&self) -> String {
        self.paragraph(2).replace('`', "")
    }

    /// Whether the command takes several keys, and their number first.
    pub(super) fn counts_keys(&self) -> bool {
        self.syntax().starts_with(&format!("{} numkeys key [key ...]", self.command))
    }

    /// Whether its key stands after a word.
    pub(super) fn names_key(&self) -> bool {
        self.syntax().contains("[KEY key")
    }

    /// The command with these keys and an owner: with the first one where it takes no more. What `LOCK.INFO` and `LOCK.BREAK` take
    /// as a second word is an error of another kind.
    pub(super) fn with_keys(&self, keys: [&str; 2]) -> String {
        let owner = if self.syntax().contains("[OWNER owner]") { "OWNER alice" } else { "alice" };
        if self.names_key() {
            return format!("{} KEY {}", self.command, keys[0]);
        }
        match (self.counts_keys(), keys) {
            (true, [one, other]) => format!("{} 2 {one} {other} {owner}", self.command),
            (false, [one, _]) => format!("{} {one} {owner}", self.command),
        }
    }

    fn paragraph(&self, place: usize) -> &str {
        self.text.split("\n\n").nth(place).unwrap().trim()
    }

    /// What is below that heading, without blank lines around it.
    #[track_caller]
    pub(super) fn section(&self, heading: &str) -> &str {
        let (_, rest) = self
            .text
            .split_once(&format!("\n## {heading}\n"))
            .unwrap_or_else(|| panic!("{}: no section {heading}", self.command));
        rest.split("\n## ").next().unwrap().trim()
    }

    /// What stands between backticks in that section and begins with the sign.
    #[track_caller]
    pub(super) fn marked(&self, heading: &str, sign: char) -> BTreeSet<&str> {
        let marked = self.section(heading).split('`').skip(1).step_by(2);
        marked.filter(|word| word.starts_with(sign)).collect()
    }

    /// What the first column of that section's table has between backticks.
    #[track_caller]
    pub(super) fn first_column(&self, heading: &str) -> BTreeSet<&str> {
        let rows = self.section(heading).lines().filter(|line| line.starts_with("| `"));
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect()
    }
}
