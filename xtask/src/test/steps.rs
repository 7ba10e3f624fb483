//! The steps that there are, and which of them a tier has.

use super::asked::{Asked, Tier};
use super::parts;
use super::slices::Slice;

/// The servers of `scripts/test`: all tests are on the first, and those on which servers differ on the others.
pub(super) const FIRST: &str = "redis-7.0";
pub(super) const NEWEST_VALKEY: &str = "valkey-9";
const NEWEST_REDIS: &str = "redis-8.6";

/// The steps that are not those of a server.
pub(super) const FAMILIES: [&str; 19] = [
    "format",
    "lints",
    "shellcheck",
    "tools",
    "command",
    "workflows",
    "packages",
    "rust",
    "unit",
    "image",
    "evidence",
    "book",
    "clients",
    "conformance",
    "fuzz",
    "arm64",
    "musl",
    "instructions",
    "fresh",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Format,
    Lints {
        workspace: bool,
    },
    LintsOfPackage,
    Shellcheck,
    Tools,
    Command,
    Workflows,
    Packages,
    OldestRust,
    OldestRustOfPackage,
    Unit {
        slice: Slice,
        seed: u32,
    },
    Integration {
        server: String,
        slice: Slice,
    },
    Image,
    Evidence,
    Client {
        name: String,
        server: String,
        whole: bool,
    },
    Conformance {
        package: String,
        server: String,
        whole: bool,
    },
    /// README's commands on a new machine with that release of Debian; `scripts/test` too, which takes longest, if whole.
    Fresh {
        suite: &'static str,
        whole: bool,
    },
    /// A program in scripts/, with its arguments.
    Script(&'static [&'static str]),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// What `--step` knows it by.
    pub(super) family: String,
    /// What the table calls it.
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// What the folders and tests/servers.conf say.
pub(super) struct Tree {
    /// The servers, and whether all tests run on them.
    pub(super) servers: Vec<(String, bool)>,
    pub(super) clients: Vec<String>,
    pub(super) packages: Vec<String>,
    pub(super) is_arm: bool,
    /// The number of the commit.
    pub(super) commit: usize,
}

fn step(family: &str, name: &str, kind: Kind) -> Step {
    Step { family: family.to_owned(), name: name.to_owned(), kind }
}

fn integration(server: &str, slice: Slice) -> Step {
    let name = match slice {
        Slice::Others => format!("{server}, the others"),
        _ => server.to_owned(),
    };
    step(server, &name, Kind::Integration { server: server.to_owned(), slice })
}

fn client(name: &str, server: &str, whole: bool) -> Step {
    let kind = Kind::Client { name: name.to_owned(), server: server.to_owned(), whole };
    let form = if whole { "" } else { ", quick" };
    step("clients", &format!("client {name}, {server}{form}"), kind)
}

fn conformance(package: &str, server: &str, whole: bool) -> Step {
    let kind = Kind::Conformance { package: package.to_owned(), server: server.to_owned(), whole };
    let form = if whole { "" } else { ", quick" };
    step("conformance", &format!("conformance {package}, {server}{form}"), kind)
}

fn unit(slice: Slice, seed: u32) -> Step {
    let name = match (slice, seed) {
        (_, 2..) => format!("unit, seed {seed}"),
        (Slice::Long, _) => "unit, long".to_owned(),
        _ => "unit".to_owned(),
    };
    step("unit", &name, Kind::Unit { slice, seed })
}

fn fresh(suite: &'static str, whole: bool) -> Step {
    let form = if whole { "" } else { ", quick" };
    step("fresh", &format!("fresh {suite}{form}"), Kind::Fresh { suite, whole })
}

/// What `scripts/test` runs.
fn short() -> Vec<Step> {
    vec![
        step("format", "format", Kind::Format),
        step("lints", "lints", Kind::Lints { workspace: false }),
        step("shellcheck", "shellcheck", Kind::Shellcheck),
        step("tools", "tools", Kind::Tools),
        unit(Slice::Short, 1),
        integration(FIRST, Slice::Short),
        integration(NEWEST_VALKEY, Slice::ShortDiffering),
        client("python", FIRST, false),
        conformance("python", FIRST, false),
    ]
}

/// What each landing runs, before its part of the rest.
fn gate(tree: &Tree) -> Vec<Step> {
    let mut steps = vec![
        step("format", "format", Kind::Format),
        step("lints", "lints", Kind::Lints { workspace: true }),
        step("shellcheck", "shellcheck", Kind::Shellcheck),
        step("tools", "tools", Kind::Tools),
        step("command", "command", Kind::Command),
        step("workflows", "workflows", Kind::Workflows),
        unit(Slice::Short, 1),
        integration(FIRST, Slice::All),
        integration(NEWEST_VALKEY, Slice::Differing),
        integration(NEWEST_REDIS, Slice::Differing),
        client("python", FIRST, false),
    ];
    steps.extend(tree.packages.iter().map(|package| conformance(package, FIRST, false)));
    steps.push(step("instructions", "instructions", Kind::Script(&["instructions"])));
    steps
}

/// Everything that the gate leaves out, in the order in which it runs.
pub(super) fn rest(tree: &Tree) -> Vec<Step> {
    let mut steps = vec![
        step("lints", "lints, package", Kind::LintsOfPackage),
        step("packages", "packages", Kind::Packages),
        step("rust", "rust", Kind::OldestRust),
        step("rust", "rust, package", Kind::OldestRustOfPackage),
        unit(Slice::Long, 1),
    ];
    steps.extend((2..=5).map(|seed| unit(Slice::All, seed)));
    for (server, has_all) in &tree.servers {
        match server.as_str() {
            FIRST => {}
            NEWEST_VALKEY | NEWEST_REDIS => steps.push(integration(server, Slice::Others)),
            _ if *has_all => steps.push(integration(server, Slice::All)),
            _ => steps.push(integration(server, Slice::Differing)),
        }
    }
    steps.push(step("image", "image", Kind::Image));
    steps.push(step("evidence", "evidence", Kind::Evidence));
    steps.push(step("book", "book", Kind::Script(&["docs"])));
    steps.extend(tree.clients.iter().map(|name| client(name, FIRST, true)));
    // Where there is a package, the other server has its scenarios.
    let alone = tree.clients.iter().filter(|name| !tree.packages.contains(name));
    steps.extend(alone.map(|name| client(name, NEWEST_VALKEY, true)));
    for package in &tree.packages {
        steps.push(conformance(package, FIRST, true));
        steps.push(conformance(package, NEWEST_VALKEY, false));
    }
    steps.push(step("fuzz", "fuzz", Kind::Script(&["fuzz", "10"])));
    // An arm64 machine tests that anyway.
    if !tree.is_arm {
        steps.push(step("arm64", "arm64", Kind::Script(&["arm64", "short"])));
    }
    steps.push(step("musl", "musl", Kind::Script(&["musl", "short"])));
    steps.extend(["bookworm", "trixie"].map(|suite| fresh(suite, false)));
    steps
}

/// Everything. What the gate has in two forms, such as the quick scenarios and all of them, is there once.
fn all(tree: &Tree) -> Vec<Step> {
    let mut steps = gate(tree);
    steps.extend(rest(tree));
    let is_other = |step: &Step| matches!(step.kind, Kind::Integration { slice: Slice::Others, .. });
    let whole: Vec<Step> = steps.iter().filter(|step| is_other(step)).cloned().collect();
    steps.retain(|step| !is_other(step));
    for step in &mut steps {
        if whole.iter().any(|other| other.family == step.family) {
            *step = integration(&step.family, Slice::All);
        }
        if matches!(step.kind, Kind::Unit { slice: Slice::Short, .. }) {
            *step = unit(Slice::All, 1);
        }
        if let Kind::Fresh { suite, .. } = step.kind {
            *step = fresh(suite, true);
        }
    }
    steps.retain(|step| !matches!(step.kind, Kind::Unit { slice: Slice::Long, .. }));
    let is_quick = |step: &Step| match &step.kind {
        Kind::Client { whole, .. } => !whole,
        Kind::Conformance { server, whole, .. } => !whole && server == FIRST,
        _ => false,
    };
    steps.retain(|step| !is_quick(step));
    steps
}

/// What runs, in an order in which steps that share a build follow each other; and what is said of it first.
pub(super) fn chosen(asked: &Asked, tree: &Tree) -> Result<(Vec<Step>, String), String> {
    if let Some(only) = &asked.only {
        let mut steps: Vec<Step> = all(tree).into_iter().filter(|step| step.family == *only).collect();
        // A server of this machine's own, in a version that the list doesn't name.
        if steps.is_empty() && (only.starts_with("redis-") || only.starts_with("valkey-")) {
            steps.push(integration(only, Slice::All));
        }
        if steps.is_empty() && !FAMILIES.contains(&only.as_str()) {
            return Err(format!("{only} is neither a step nor a server"));
        }
        // Of clients and packages the filter names some. For tests, cargo is told.
        steps.retain(|step| match &step.kind {
            Kind::Client { name, .. } => name.contains(&asked.filter),
            Kind::Conformance { package, .. } => package.contains(&asked.filter),
            Kind::Unit { seed: 2.., .. } => has_random(&asked.filter),
            Kind::Fresh { suite, .. } => suite.contains(&asked.filter),
            _ => true,
        });
        return Ok((steps, String::new()));
    }
    let mut said = String::new();
    let mut steps = match asked.tier {
        Tier::Short if asked.is_whole() => short(),
        Tier::All | Tier::Short => all(tree),
        Tier::Gate => {
            let part = asked.part.unwrap_or(tree.commit % parts::COUNT);
            let names =
                parts::of(part, &rest(tree)).ok_or(format!("the parts are 0 to {}", parts::COUNT - 1))?;
            said = format!(
                "part {part} of {} (scripts/test gate --part {part}): {}",
                parts::COUNT,
                names.iter().map(|step| step.name.as_str()).collect::<Vec<_>>().join("; ")
            );
            [gate(tree), names].concat()
        }
    };
    if !asked.is_whole() {
        let every = asked.tier > Tier::Short;
        for step in &mut steps {
            match &mut step.kind {
                Kind::Client { whole, .. } | Kind::Conformance { whole, .. } if !every => *whole = false,
                _ => {}
            }
        }
        steps.retain(|step| match &step.kind {
            Kind::Unit { seed: 2.., .. } => every && has_random(&asked.filter),
            Kind::Unit { .. } => true,
            Kind::Integration { server, .. } => every || server == FIRST || server == NEWEST_VALKEY,
            Kind::Client { name, server, .. } => {
                format!("clients {name}").contains(&asked.filter) && (every || server == FIRST)
            }
            Kind::Conformance { package, server, .. } => {
                format!("conformance {package}").contains(&asked.filter) && (every || server == FIRST)
            }
            _ => step.family.contains(&asked.filter),
        });
    }
    Ok((in_order(steps), said))
}

/// Other seeds concern what is random.
fn has_random(filter: &str) -> bool {
    filter.is_empty() || filter.contains("histories")
}

/// What needs no server first; then servers; then what runs side by side; scripts of their own last.
fn in_order(mut steps: Vec<Step>) -> Vec<Step> {
    steps.sort_by_key(|step| match step.kind {
        Kind::Unit { .. } => 1,
        Kind::Integration { .. } => 2,
        Kind::Image | Kind::Evidence | Kind::Client { .. } | Kind::Conformance { .. } => 3,
        Kind::Script(_) | Kind::Fresh { .. } => 4,
        _ => 0,
    });
    steps
}

#[cfg(test)]
pub(in crate::test) mod tests;
