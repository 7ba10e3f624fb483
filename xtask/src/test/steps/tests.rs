//! What each tier, each part and each filter runs.

use super::*;

pub(in crate::test) fn tree() -> Tree {
    let servers = [
        ("redis-7.0", true),
        ("redis-8.0", false),
        ("redis-8.6", true),
        ("valkey-8.1", false),
        ("valkey-9", true),
    ];
    let names = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    Tree {
        servers: servers.map(|(name, all)| (name.to_owned(), all)).to_vec(),
        clients: names(&["c", "go", "python"]),
        packages: names(&["go", "python"]),
        is_arm: false,
        commit: 7,
    }
}

fn names(words: &str) -> Vec<String> {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let (steps, _) = chosen(&Asked::read(&words).unwrap(), &tree()).unwrap();
    steps.into_iter().map(|step| step.name).collect()
}

/// Which tests of that server, or of those without one, a step has: the four kinds of them.
fn covers(slice: Slice) -> Vec<(bool, bool)> {
    let every = [(false, false), (false, true), (true, false), (true, true)];
    let has = |&(long, differing): &(bool, bool)| match slice {
        Slice::All => true,
        Slice::Short => !long,
        Slice::Long => long,
        Slice::Differing => differing,
        Slice::ShortDiffering => !long && differing,
        Slice::Others => !differing,
    };
    every.into_iter().filter(has).collect()
}

/// What a step is made of.
fn atoms(step: &Step) -> Vec<String> {
    match &step.kind {
        Kind::Integration { server, slice } => {
            covers(*slice).iter().map(|kind| format!("{server} {kind:?}")).collect()
        }
        Kind::Unit { slice, seed } => {
            covers(*slice).iter().map(|kind| format!("unit {seed} {kind:?}")).collect()
        }
        Kind::Conformance { package, server, whole } => {
            let forms: &[&str] = if *whole { &["quick", "long"] } else { &["quick"] };
            forms.iter().map(|form| format!("{package} {server} {form}")).collect()
        }
        Kind::Client { name, server, whole } => {
            let forms: &[&str] = if *whole { &["quick", "long"] } else { &["quick"] };
            forms.iter().map(|form| format!("client {name} {server} {form}")).collect()
        }
        // The whole form runs scripts/test in it, whose checks the gate has.
        Kind::Fresh { suite, .. } => vec![format!("fresh {suite}")],
        Kind::Lints { workspace } => {
            let crates: &[&str] = if *workspace { &["module", "others"] } else { &["module"] };
            crates.iter().map(|of| format!("lints {of}")).collect()
        }
        _ => vec![step.name.clone()],
    }
}

fn all_atoms(steps: &[Step]) -> std::collections::BTreeSet<String> {
    steps.iter().flat_map(atoms).collect()
}

#[test]
fn each_tier_has_what_the_one_before_has() {
    let (short, gate, all) = (all_atoms(&short()), all_atoms(&gate(&tree())), all_atoms(&all(&tree())));
    assert!(short.is_subset(&gate), "{:?}", short.difference(&gate));
    assert!(gate.is_subset(&all), "{:?}", gate.difference(&all));
}

#[test]
fn the_gates_of_as_many_commits_as_there_are_parts_run_everything() {
    let tree = tree();
    let mut seen = all_atoms(&gate(&tree));
    for part in 0..parts::COUNT {
        seen.extend(all_atoms(&parts::of(part, &rest(&tree)).unwrap()));
    }
    assert_eq!(seen, all_atoms(&all(&tree)));
}

#[test]
fn a_part_is_that_of_the_commit_unless_told() {
    let first = |words: &str| {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        chosen(&Asked::read(&words).unwrap(), &tree()).unwrap().1
    };
    assert!(first("gate").starts_with(&format!("part {} of", 7 % parts::COUNT)));
    assert!(first("gate --part 1").starts_with("part 1 of"));
    let words = ["gate", "--part", "99"].map(str::to_owned);
    assert!(chosen(&Asked::read(&words).unwrap(), &tree()).is_err());
}

#[test]
fn one_step_is_one() {
    assert_eq!(names("--step valkey-9"), ["valkey-9"]);
    assert_eq!(names("--step valkey-9 grace::"), ["valkey-9"]);
    assert_eq!(names("--step redis-6.2"), ["redis-6.2"]);
    assert_eq!(
        names("--step conformance go"),
        ["conformance go, redis-7.0", "conformance go, valkey-9, quick"]
    );
    assert_eq!(names("--step lints"), ["lints", "lints, package"]);
    let words = ["--step", "nothing"].map(str::to_owned);
    assert!(chosen(&Asked::read(&words).unwrap(), &tree()).is_err());
}

#[test]
fn a_filter_takes_tests_on_two_servers_and_steps_by_their_names() {
    assert_eq!(names("lapse"), ["unit", "redis-7.0", "valkey-9"]);
    assert!(names("all lapse").contains(&"redis-8.0".to_owned()));
    assert!(names("shell").contains(&"shellcheck".to_owned()));
    assert!(names("go").contains(&"client go, redis-7.0".to_owned()));
}
