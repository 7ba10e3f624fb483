//! Runs the programs that once caused the most work, with which the search begins.

use std::fs;

use super::run::Stage;
use crate::support::{path_in, root};

/// Returns the programs with the names of their files, from the folder `REDISLOCK_PROGRAMS` if it is set.
pub(super) fn seeds() -> Vec<(String, String)> {
    let folder = path_in("REDISLOCK_PROGRAMS").unwrap_or_else(|| root().join("tests/integration/cost/seeds"));
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
        stage.run(&text);
        stage.judge(0);
        stage.wait_for_idle();
    }
}
