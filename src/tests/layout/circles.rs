//! Finds files that use each other in a circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::edges::Edge;

/// A shortest circle for each file that is in one, each circle once.
pub(super) fn circles<'a>(edges: impl Iterator<Item = &'a Edge<'a>>) -> Vec<Vec<&'a Edge<'a>>> {
    let mut used: BTreeMap<&str, BTreeMap<&str, &Edge<'_>>> = BTreeMap::new();
    for edge in edges {
        used.entry(edge.from).or_default().entry(edge.to).or_insert(edge);
    }
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for file in used.keys() {
        let Some(circle) = shortest(&used, file) else { continue };
        if seen.insert(circle.iter().map(|edge| edge.from).collect::<BTreeSet<_>>()) {
            circles.push(circle);
        }
    }
    circles
}

/// The shortest path from a file back to itself.
fn shortest<'a>(
    used: &BTreeMap<&'a str, BTreeMap<&'a str, &'a Edge<'a>>>,
    start: &'a str,
) -> Option<Vec<&'a Edge<'a>>> {
    // The edge by which each file was reached.
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
    let mut circle = vec![*led.get(start)?];
    while circle.last()?.from != start {
        circle.push(led[circle.last()?.from]);
    }
    circle.reverse();
    Some(circle)
}
