//! What is known of each mutant, in a file.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::draw::Mutant;
use super::{Result, told};

/// Who found a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Finder {
    Lib,
    Integration,
    Nobody,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) mutant: Mutant,
    /// Not known yet: none.
    pub(super) found: Option<Finder>,
    /// Tests that fail with it, also by themselves, and pass without it.
    pub(super) by: Vec<String>,
    /// Tests that failed with it once, but not by themselves.
    pub(super) shaken: Vec<String>,
    pub(super) tried_by_lib: bool,
    /// How many tests of each kind come by it.
    pub(super) reached_by_lib: usize,
    pub(super) reached_by_integration: usize,
}

impl Found {
    pub(super) fn new(mutant: Mutant) -> Self {
        let (by, shaken) = (Vec::new(), Vec::new());
        Self {
            mutant,
            found: None,
            by,
            shaken,
            tried_by_lib: false,
            reached_by_lib: 0,
            reached_by_integration: 0,
        }
    }
}

pub(super) fn read(path: &Path) -> Result<Option<Vec<Found>>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(told(path)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(told(path)(error)),
    }
}

pub(super) fn write<T: Serialize>(path: &Path, what: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(what).map_err(told(path))?;
    // Never half of it.
    let beside = path.with_extension("part");
    fs::write(&beside, text + "\n").map_err(told(&beside))?;
    fs::rename(&beside, path).map_err(told(path))
}

/// The table, and what escapes that was found before; whether there is no such mutant.
pub(super) fn tell(all: &[Found], before: Option<&[Found]>) -> bool {
    let count = |finder| all.iter().filter(|found| found.found == Some(finder)).count();
    println!();
    for (number, found) in all.iter().enumerate() {
        let by = match found.found {
            Some(Finder::Lib) => format!("lib: {}", found.by.join(", ")),
            Some(Finder::Integration) => format!("integration: {}", found.by.join(", ")),
            Some(Finder::Nobody) => format!(
                "SURVIVED; {} unit tests and {} on servers come by it",
                found.reached_by_lib, found.reached_by_integration
            ),
            None => "not tried".into(),
        };
        println!("{number:3}  {}\n       {by}", found.mutant.name);
    }
    let (lib, integration, nobody) = (count(Finder::Lib), count(Finder::Integration), count(Finder::Nobody));
    println!(
        "\n{} mutants: unit tests find {lib}, tests on servers {integration}, nobody {nobody}",
        all.len()
    );
    let Some(before) = before else { return true };
    let escaped: Vec<&str> = before
        .iter()
        .zip(all)
        .filter(|(before, now)| before.found != Some(Finder::Nobody) && now.found == Some(Finder::Nobody))
        .map(|(_, now)| now.mutant.name.as_str())
        .collect();
    for name in &escaped {
        println!("ESCAPES, and was found before: {name}");
    }
    println!("{} of those that were found before escape", escaped.len());
    escaped.is_empty()
}
