//! A page of `docs/commands`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::root;

/// The page of one command.
pub(super) struct Page {
    /// The command's name, as in the title.
    pub(super) command: String,
    pub(super) text: String,
}

/// Returns the files in the folder of the commands' pages, which also has pages of options.
fn files() -> Vec<PathBuf> {
    let folder = root().join("docs/commands");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_stem().unwrap().to_str().unwrap()
}

/// Returns the pages of options: each option's name and the text.
pub(super) fn pages_of_options() -> Vec<(String, String)> {
    let files = files().into_iter().filter(|path| !name(path).starts_with("lock."));
    files.map(|path| (name(&path).into(), fs::read_to_string(&path).unwrap())).collect()
}

/// Returns the pages of commands.
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
    /// Returns the syntax, which is below the title.
    pub(super) fn syntax(&self) -> &str {
        self.paragraph(1)
    }

    /// Returns the first sentence.
    pub(super) fn summary(&self) -> String {
        self.paragraph(2).replace('`', "")
    }

    /// Whether the command takes several keys, after their number.
    pub(super) fn counts_keys(&self) -> bool {
        self.syntax().starts_with(&format!("{} numkeys key [key ...]", self.command))
    }

    /// Whether the command's key follows the word `KEY`.
    pub(super) fn names_key(&self) -> bool {
        self.syntax().contains("[KEY key")
    }

    /// Returns the command with these keys and an owner, or only with the first key if it takes one. `LOCK.INFO` and `LOCK.BREAK` take no
    /// owner, so their error for this word is of another kind.
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

    /// Returns the section with this heading, without blank lines around it.
    #[track_caller]
    pub(super) fn section(&self, heading: &str) -> &str {
        let (_, rest) = self
            .text
            .split_once(&format!("\n## {heading}\n"))
            .unwrap_or_else(|| panic!("{}: no section {heading}", self.command));
        rest.split("\n## ").next().unwrap().trim()
    }

    /// Returns the texts between backticks in a section that begin with this sign.
    #[track_caller]
    pub(super) fn marked(&self, heading: &str, sign: char) -> BTreeSet<&str> {
        let marked = self.section(heading).split('`').skip(1).step_by(2);
        marked.filter(|word| word.starts_with(sign)).collect()
    }

    /// Returns the texts between backticks in the first column of a section's table.
    #[track_caller]
    pub(super) fn first_column(&self, heading: &str) -> BTreeSet<&str> {
        let rows = self.section(heading).lines().filter(|line| line.starts_with("| `"));
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect()
    }
}
