//! Programs that were the worst once: those that the search begins with.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::run::Stage;

/// Each with its file's name; from the folder `REDISLOCK_PROGRAMS`, where that is set.
pub(super) fn seeds() -> Vec<(String, String)> {
    let folder = env::var_os("REDISLOCK_PROGRAMS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/cost/seeds"),
        PathBuf::from,
    );
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut seeds: Vec<_> = files
        .map(|file| (file.file_stem().unwrap().display().to_string(), fs::read_to_string(&file).unwrap()))
        .collect();
    seeds.sort();
    seeds
}

#[test]
fn programs_that_were_the_worst_once_stay_within_the_bound() {
    for (name, text) in seeds() {
        println!("--- {name}");
        let mut stage = Stage::new();
        stage.run_text(&text);
        stage.judge();
        stage.wait_for_idle();
    }
}
