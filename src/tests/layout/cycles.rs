//! Finds files that use each other in a cycle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::edges::Edge;

/// Returns a shortest cycle for each file that is in a cycle, and each cycle only once.
pub(super) fn cycles<'a>(edges: impl Iterator<Item = &'a Edge<'a>>) -> Vec<Vec<&'a Edge<'a>>> {
    let mut used: BTreeMap<&str, BTreeMap<&str, &Edge<'_>>> = BTreeMap::new();
    for edge in edges {
        used.entry(edge.from).or_default().entry(edge.to).or_insert(edge);
    }
    let mut seen = BTreeSet::new();
    let mut cycles = Vec::new();
    for file in used.keys() {
        let Some(cycle) = shortest(&used, file) else { continue };
        if seen.insert(cycle.iter().map(|edge| edge.from).collect::<BTreeSet<_>>()) {
            cycles.push(cycle);
        }
    }
    cycles
}

/// Returns the shortest path from a file back to itself, if there is one.
fn shortest<'a>(
    used: &BTreeMap<&'a str, BTreeMap<&'a str, &'a Edge<'a>>>,
    start: &'a str,
) -> Option<Vec<&'a Edge<'a>>> {
    // The edge by which the search reached each file.
    let mut led: BTreeMap<&str, &Edge<'_>> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(file) = next.pop_front() {
        for (&to, &edge) in used.get(file).into_iter().flatten() {
            if !led.contains_key(to) {
                led.insert(to, edge);
                next.push_back(to);
            }
        }
    }
    let mut cycle = vec![*led.get(start)?];
    while cycle.last()?.from != start {
        cycle.push(led[cycle.last()?.from]);
    }
    cycle.reverse();
    Some(cycle)
}
