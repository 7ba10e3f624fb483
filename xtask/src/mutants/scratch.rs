//! A copy of the tree in which the mutants are, and what is built of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::draw::{Lots, Mutant};
use super::plant::{self, Planting};
use super::{Result, told};

pub(super) struct Scratch {
    pub(super) tree: PathBuf,
    target: PathBuf,
    /// Which mutants are on which lines of which file.
    lines: BTreeMap<String, Vec<(usize, Range<usize>)>>,
}

/// A line of what cargo tells.
#[derive(Deserialize)]
struct Told {
    reason: String,
    executable: Option<PathBuf>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    rendered: Option<String>,
    spans: Vec<Where>,
}

#[derive(Deserialize)]
struct Where {
    file_name: String,
    line_start: usize,
    line_end: usize,
}

/// What became of a build.
pub(super) enum Built {
    /// The program of the tests, where there is one.
    Done(Option<PathBuf>),
    /// Those mutants do not compile.
    Not(BTreeSet<usize>),
}

impl Scratch {
    /// A copy of what git knows of that tree.
    pub(super) fn new(root: &Path, folder: &Path) -> Result<Self> {
        let tree = folder.join("tree");
        _ = fs::remove_dir_all(&tree);
        fs::create_dir_all(&tree).map_err(told(&tree))?;
        let script =
            "git ls-files -z | tar --create --null --files-from - | tar --extract --directory \"$0\"";
        let status =
            Command::new("bash").args(["-o", "pipefail", "-c", script]).arg(&tree).current_dir(root).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("git and tar make no copy of the tree".into());
        }
        let library = tree.join("src/lib.rs");
        let text = fs::read_to_string(&library).map_err(told(&library))?;
        fs::write(&library, format!("{text}mod planted;\n")).map_err(told(&library))?;
        let planted = tree.join("src/planted.rs");
        fs::write(&planted, include_str!("planted.rs")).map_err(told(&planted))?;
        Ok(Self { tree, target: folder.join("build"), lines: BTreeMap::new() })
    }

    /// Draws mutants, as many of each lot as fit, until all of them compile.
    pub(super) fn draw(&mut self, root: &Path, lots: &mut Lots, count: usize) -> Result<Vec<Mutant>> {
        let mut wanted: Vec<(usize, String)> = lots.take(count).into_iter().enumerate().collect();
        let mut drawn: Vec<(Mutant, Planting)> = Vec::new();
        loop {
            for (number, lot) in std::mem::take(&mut wanted) {
                let (mutant, planting) = loop {
                    let mutant = lots.draw(&lot).ok_or(format!("{lot} has too few mutants"))?;
                    let text = read(root, &mutant.file)?;
                    let Some(planting) = plant::planting(number, &mutant, &text) else { continue };
                    let beside = |(other, there): &(Mutant, Planting)| {
                        other.file == mutant.file && there.edit.meets(&planting.edit)
                    };
                    if !drawn.iter().any(beside) {
                        break (mutant, planting);
                    }
                };
                drawn.push((mutant, planting));
            }
            self.plant(root, &drawn)?;
            let Built::Not(failing) = self.cargo(&["check", "--lib"])? else { break };
            for (mutant, planting) in drawn.extract_if(.., |(_, planting)| failing.contains(&planting.number))
            {
                println!("does not compile: {}", mutant.name);
                wanted.push((planting.number, lots.of(&mutant)));
            }
            if wanted.is_empty() {
                return Err("cargo check fails without the mutants, too".into());
            }
        }
        drawn.sort_by_key(|(_, planting)| planting.number);
        Ok(drawn.into_iter().map(|(mutant, _)| mutant).collect())
    }

    /// Plants those that were drawn before.
    pub(super) fn take(&mut self, root: &Path, mutants: &[Mutant]) -> Result<()> {
        let mut drawn = Vec::new();
        for (number, mutant) in mutants.iter().enumerate() {
            let planting = plant::planting(number, mutant, &read(root, &mutant.file)?);
            let planting = planting.ok_or(format!("src has changed, there is no more {}", mutant.name))?;
            drawn.push((mutant.clone(), planting));
        }
        self.plant(root, &drawn)
    }

    fn plant(&mut self, root: &Path, drawn: &[(Mutant, Planting)]) -> Result<()> {
        // Those that had some before are written again.
        let mut files: BTreeSet<String> = std::mem::take(&mut self.lines).into_keys().collect();
        files.extend(drawn.iter().map(|(mutant, _)| mutant.file.clone()));
        for file in files {
            let of_file = drawn.iter().filter(|(mutant, _)| mutant.file == file);
            let plantings: Vec<Planting> = of_file.map(|(_, planting)| planting.clone()).collect();
            let text = read(root, &file)?;
            // The library's list of modules was made longer.
            let text = if file == "src/lib.rs" { text + "mod planted;\n" } else { text };
            let lines = plant::plant(&self.tree.join(&file), &text, &plantings)?;
            self.lines.insert(file, lines);
        }
        Ok(())
    }

    pub(super) fn module(&self) -> PathBuf {
        self.target.join("debug/libredislock.so")
    }

    pub(super) fn meddler(&self) -> PathBuf {
        self.target.join("debug/examples/libmeddler.so")
    }

    /// Builds so; fails where it must not.
    pub(super) fn build(&self, arguments: &[&str]) -> Result<Option<PathBuf>> {
        match self.cargo(arguments)? {
            Built::Done(program) => Ok(program),
            Built::Not(mutants) => Err(format!("cargo {arguments:?} fails; at fault are {mutants:?}")),
        }
    }

    fn cargo(&self, arguments: &[&str]) -> Result<Built> {
        println!("cargo {}", arguments.join(" "));
        let output = Command::new("cargo")
            .args(arguments)
            .args(["--locked", "--message-format=json"])
            .env("CARGO_TARGET_DIR", &self.target)
            .current_dir(&self.tree)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cargo: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let told: Vec<Told> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if output.status.success() {
            let programs = told.into_iter().filter(|told| told.reason == "compiler-artifact");
            return Ok(Built::Done(programs.filter_map(|told| told.executable).next_back()));
        }
        let errors: Vec<Message> = told
            .into_iter()
            .filter_map(|told| told.message)
            .filter(|message| message.level == "error")
            .collect();
        let failing: BTreeSet<usize> =
            errors.iter().flat_map(|error| &error.spans).flat_map(|place| self.mutants_at(place)).collect();
        if failing.is_empty() {
            let rendered: String = errors.into_iter().filter_map(|error| error.rendered).collect();
            return Err(format!("cargo {arguments:?} fails:\n{rendered}"));
        }
        Ok(Built::Not(failing))
    }

    fn mutants_at(&self, place: &Where) -> Vec<usize> {
        let lines = self.lines.get(&place.file_name).into_iter().flatten();
        let there = lines.filter(|(_, lines)| place.line_start < lines.end && lines.start <= place.line_end);
        there.map(|(number, _)| *number).collect()
    }
}

fn read(root: &Path, file: &str) -> Result<String> {
    let path = root.join(file);
    fs::read_to_string(&path).map_err(told(&path))
}
