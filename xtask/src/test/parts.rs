//! The parts of what the gate leaves out. Each commit runs one of them, by its number.

use super::steps::{Kind, Step};

/// As many commits run everything.
pub(super) const COUNT: usize = 12;

/// Seconds on two cores in which a step runs that has nothing built before; what shares a build has it once, in `group`.
fn seconds(step: &Step) -> u32 {
    match &step.kind {
        Kind::Unit { .. } if step.name == "unit, long" => 150,
        Kind::Unit { .. } => 25,
        Kind::Integration { .. } if step.name.ends_with("the others") => 110,
        Kind::Integration { .. } => 60,
        Kind::OldestRust => 60,
        Kind::OldestRustOfPackage | Kind::LintsOfPackage => 30,
        Kind::Image => 240,
        Kind::Evidence => 120,
        Kind::Client { .. } => 30,
        Kind::Conformance { whole: true, .. } => 60,
        Kind::Conformance { .. } => 25,
        Kind::Script(script) if script.first() == Some(&"fuzz") => 220,
        Kind::Script(_) | Kind::Fresh { .. } => 240,
        _ => 5,
    }
}

/// Steps that need the same build or the same packages, and so are in the same part.
fn group(step: &Step) -> String {
    match &step.kind {
        Kind::Unit { .. } => "unit".to_owned(),
        Kind::OldestRust | Kind::OldestRustOfPackage => "rust".to_owned(),
        Kind::Client { name, .. } => format!("client {name}"),
        Kind::Conformance { package, .. } => format!("client {package}"),
        _ => step.name.clone(),
    }
}

/// The steps of that part, in their order; none if there is no such part.
pub(super) fn of(part: usize, rest: &[Step]) -> Option<Vec<Step>> {
    if part >= COUNT {
        return None;
    }
    let mut groups: Vec<(u32, String)> = Vec::new();
    for step in rest {
        let name = group(step);
        match groups.iter_mut().find(|(_, other)| *other == name) {
            Some((sum, _)) => *sum += seconds(step),
            None => groups.push((seconds(step), name)),
        }
    }
    // The longest first, each into the part that is the shortest so far.
    groups.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    let mut parts: Vec<(u32, Vec<String>)> = vec![(0, Vec::new()); COUNT];
    for (sum, name) in groups {
        if let Some(shortest) = parts.iter_mut().min_by_key(|(sum, _)| *sum) {
            shortest.0 += sum;
            shortest.1.push(name);
        }
    }
    let (_, names) = parts.into_iter().nth(part)?;
    Some(rest.iter().filter(|step| names.contains(&group(step))).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::steps::{rest, tests::tree};

    #[test]
    fn each_step_belongs_to_exactly_one_part() {
        let rest = rest(&tree());
        for step in &rest {
            let parts = (0..COUNT).filter(|&part| of(part, &rest).unwrap().contains(step)).count();
            assert_eq!(parts, 1, "{}", step.name);
        }
    }

    #[test]
    fn there_is_no_part_beyond_the_last() {
        assert_eq!(of(COUNT, &rest(&tree())), None);
    }

    #[test]
    fn no_part_is_longer_than_its_longest_step_needs() {
        let rest = rest(&tree());
        let total: u32 = rest.iter().map(seconds).sum();
        for part in 0..COUNT {
            let steps = of(part, &rest).unwrap();
            let sum: u32 = steps.iter().map(seconds).sum();
            let groups: std::collections::BTreeSet<String> = steps.iter().map(group).collect();
            assert!(
                groups.len() == 1 || sum <= total / COUNT as u32 * 3 / 2,
                "part {part}: {sum} s of {total} s"
            );
        }
    }
}
