//! What a page repeats is what its source says: a setting's default, a constant of the module, a figure of another page.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::operations::{all_pages, prose};
use crate::support::{Server, Setup, root};

/// The page's text in one line, its numbers without commas.
fn plain(path: &Path) -> String {
    let text = prose(&fs::read_to_string(path).unwrap());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let signs: Vec<char> = text.chars().collect();
    let is_digit =
        |place: Option<usize>| place.and_then(|at| signs.get(at)).is_some_and(char::is_ascii_digit);
    let kept = signs.iter().enumerate().filter(|&(at, &sign)| {
        sign != ',' || !is_digit(at.checked_sub(1)) || !(1..=3).all(|ahead| is_digit(Some(at + ahead)))
    });
    kept.map(|(_, sign)| sign).collect()
}

/// The number that the text begins with, and what follows.
fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// As in "`lock.claim` (5 s)", and in a table behind the link to the setting.
#[test]
fn a_number_beside_a_setting_is_its_default() {
    let server: Server = Setup::new().shipped().start();
    let known: HashMap<String, i64> = server.client().ask("CONFIG GET lock.*");
    let mut repeated = 0;
    for page in all_pages() {
        let text = plain(&page);
        let before = ["` (", "`](configure.md#settings) | "];
        let named = text.split("`lock.").skip(1);
        for (name, rest) in named.flat_map(|rest| before.map(|before| rest.split_once(before))).flatten() {
            let (Some((value, unit)), Some(default)) = (number(rest), known.get(&format!("lock.{name}")))
            else {
                continue;
            };
            let value = if unit.starts_with(" s") { value * 1000 } else { value };
            assert_eq!(value, *default, "{}: lock.{name}", page.display());
            repeated += 1;
        }
    }
    assert!(repeated > 10, "{repeated}");
}

/// Pages of `docs`, and what each says; `{}` stands for the number.
type Said = &'static [(&'static str, &'static str)];

/// In which file of `src` a constant is, and what pages say of it.
const CONSTANTS: &[(&str, &str, Said)] = &[
    (
        "waiting/budget.rs",
        "WORK",
        &[
            ("operations/cost.md", "| the budget | {} |"),
            ("words.md", "what falls due: {} units"),
            ("design.md", "A command does at most {} units"),
        ],
    ),
    (
        "waiting/detect/mod.rs",
        "MOST",
        &[
            ("commands/detect.md", "The search looks at no more than {} holders"),
            ("design.md", "It looks at no more than {} holders"),
            ("operations/cost.md", "K + {} looked at"),
            ("safety.md", "no more than {} holders, waiters and locks"),
        ],
    ),
    (
        "waiting/detect/mod.rs",
        "MOST_COMPARED",
        &[
            ("commands/detect.md", "After {} comparisons of holders"),
            ("design.md", "After {} comparisons"),
            ("operations/cost.md", "{} compared"),
        ],
    ),
    (
        "waiting/run_due.rs",
        "ANSWERS",
        &[
            ("design.md", "answers at most {} blocked clients"),
            ("operations/cost.md", "answers at most {} blocked clients"),
        ],
    ),
    (
        "waiting/table/busiest.rs",
        "MOST",
        &[
            ("commands/lock.waits.md", "keeps a table of {} locks"),
            ("design.md", "a table of {} with Space-Saving"),
        ],
    ),
    (
        "waiting/table/shown.rs",
        "PAGE",
        &[
            ("commands/lock.waits.md", "looks at no more than {} waiters"),
            ("operations/cost.md", "| {} waiters and names of locks"),
        ],
    ),
    (
        "waiting/longest_held.rs",
        "MOST",
        &[("operations/cost.md", "| `INFO lock` | {} locks"), ("design.md", "at most {} per query")],
    ),
    (
        "lock/owner.rs",
        "MAX_OWNER_LEN",
        &[
            ("commands/lock.acquire.md", "1 to {} bytes of any kind"),
            ("operations/secure.md", "| owner | 1 to {} bytes"),
            ("words.md", "1 to {} bytes, of any kind"),
        ],
    ),
    (
        "commands/parse.rs",
        "LONGEST_CHANNEL",
        &[
            ("commands/lock.acquire.md", "on that channel (1 to {} bytes)"),
            ("operations/secure.md", "| channel of `NOTIFY` | 1 to {} bytes"),
        ],
    ),
];

/// The value of that constant in the source.
fn constant(file: &str, name: &str) -> i64 {
    let source = fs::read_to_string(root().join("src").join(file)).unwrap();
    let line = source.lines().find(|line| line.contains(&format!("const {name}: ")));
    let value =
        line.and_then(|line| line.split_once(" = ")).unwrap_or_else(|| panic!("{file} has no {name}"));
    value.1.trim_end_matches(';').replace('_', "").parse().unwrap()
}

#[test]
fn a_constant_is_what_the_pages_say() {
    for (file, name, pages) in CONSTANTS {
        for (page, words) in *pages {
            let text = plain(&root().join("docs").join(page));
            let words = words.replace("{}", &constant(file, name).to_string());
            assert!(text.contains(&words), "{page} does not say {words:?}, as {name} of {file}");
        }
    }
}

/// The links of a page: what is shown, and the page that it leads to.
fn links(page: &Path) -> Vec<(String, PathBuf)> {
    let text = plain(page);
    let ends = text.match_indices("](").map(|(end, _)| end);
    let links = ends.filter_map(|end| {
        let shown = &text[text[..end].rfind('[')? + 1..end];
        let file = text[end + 2..].split([')', '#']).next()?;
        let target = page.parent()?.join(file);
        target.extension().is_some_and(|extension| extension == "md").then(|| (shown.to_owned(), target))
    });
    links.collect()
}

#[test]
fn a_figure_in_a_link_is_on_the_page_that_it_leads_to() {
    let mut repeated = 0;
    for page in all_pages() {
        for (shown, target) in links(&page) {
            let numbers = shown.split(|sign: char| !sign.is_ascii_digit() && sign != '.');
            let numbers = numbers.map(|number| number.trim_matches('.')).filter(|number| !number.is_empty());
            for number in numbers {
                let found = target.exists() && plain(&target).contains(number);
                assert!(found, "{} shows {number} of {}", page.display(), target.display());
                repeated += 1;
            }
        }
    }
    assert!(repeated > 2, "{repeated}");
}

/// Whether the cell shows that median: "1.59x (1.51..1.67)", "5,809".
fn shows(cell: &str, median: &Value) -> bool {
    let cell = cell.replace(',', "");
    let end = cell.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(cell.len());
    let (shown, median): (f64, f64) = (cell[..end].parse().unwrap(), median.as_f64().unwrap());
    let rounded = if cell.contains('.') { 0.005 * median.max(1.0) } else { 0.5 };
    (shown - median).abs() <= rounded
}

/// The row, or figure, of a part of the saved results.
fn saved<'a>(part: &'a Value, list: &str, wanted: &[(&str, &str)]) -> Option<&'a Value> {
    part[list].as_array().unwrap().iter().find(|one| wanted.iter().all(|&(name, value)| one[name] == value))
}

/// `scripts/bench --pages` writes them.
#[test]
fn the_tables_at_a_glance_are_what_was_saved() {
    let file = fs::read_to_string(root().join("docs/bench/redis/results.json")).unwrap();
    let results: Value = serde_json::from_str(&file).unwrap();
    for (page, packages, ratios) in [("README.md", 10, 6), ("docs/bench.md", 10, 9)] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let (_, figures) = text.split_once("<!-- figures: ").unwrap();
        let (figures, _) = figures.split_once("<!-- end of figures -->").unwrap();
        let lines: Vec<Vec<&str>> = figures
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        assert_eq!(lines.len(), 2 + packages + 2 + ratios, "{page}");
        for line in &lines[2..2 + packages] {
            compare_package(page, line, &results["clients"]);
        }
        let mut lost = 0;
        for line in &lines[lines.len() - ratios..] {
            let wanted = [("work", line[0]), ("beside", line[1])];
            let parts = ["clients", "throughput", "handover", "memory"].iter();
            let row = parts.filter_map(|part| saved(&results[part], "rows", &wanted)).next().unwrap();
            assert!(shows(line[2], &row["value"]["median"]), "{page}: {line:?}");
            assert!(line[3].is_empty() || shows(line[3], &row["cpu"]["median"]), "{page}: {line:?}");
            lost += usize::from(line[2].starts_with("0."));
        }
        assert!(lost > 0, "{page} shows nothing that is slower");
    }
}

/// A line of the first table: through the package, by the raw command, and what users have today.
fn compare_package(page: &str, line: &[&str], clients: &Value) {
    let language = match line[0] {
        "Java, eight JVMs" => line[0],
        shown => shown.split(',').next().unwrap(),
    };
    let raw = if line[0].contains("Jedis") { " with Jedis" } else { "" };
    let raw = format!("LOCK.ACQUIRE ... BLOCK 0{raw}");
    let work = format!("handovers, 8 clients, {language}");
    for (cell, who) in [(1, "Redislock's package"), (2, raw.as_str()), (5, line[4])] {
        match saved(clients, "figures", &[("work", &work), ("who", who)]) {
            Some(figure) => assert!(shows(line[cell], &figure["value"]["median"]), "{page}: {line:?}"),
            None => assert_eq!(line[cell], "", "{page}: {who} was not measured"),
        }
    }
    let work = format!("handovers/s, 8 clients, {language} with our package");
    for (cell, beside) in [(3, raw.as_str()), (6, line[4])] {
        match saved(clients, "rows", &[("work", &work), ("beside", beside)]) {
            Some(row) => assert!(shows(line[cell], &row["value"]["median"]), "{page}: {line:?}"),
            None => assert_eq!(line[cell], "", "{page}: {beside} was not measured"),
        }
    }
}

/// "7.0, 8.0 and 8.6".
fn listed(names: &[&str]) -> String {
    let (last, others) = names.split_last().unwrap();
    format!("{} and {last}", others.join(", "))
}

#[test]
fn versions_are_those_of_the_project() {
    let text = fs::read_to_string(root().join("tests/servers.conf")).unwrap();
    let servers = |kind: &str| {
        let names = text.lines().filter_map(|line| line.strip_prefix(kind)?.split_whitespace().next());
        // Two of one line of servers have one name here.
        listed(&names.filter(|name| name.matches('.').count() < 2).collect::<Vec<_>>())
    };
    let servers = format!("Redis {}, and on Valkey {}", servers("redis-"), servers("valkey-"));
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let declared = |field: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_prefix("= \""));
        line.unwrap().trim_end_matches('"').to_owned()
    };
    let (version, rust) = (declared("version "), declared("rust-version "));
    for (page, words) in [
        ("docs/operations/versions.md", servers),
        ("docs/operations/versions.md", format!("This is version {version},")),
        ("README.md", format!("version {version}")),
        ("docs/operations/install.md", format!("Rust {rust} or later")),
    ] {
        assert!(plain(&root().join(page)).contains(&words), "{page} does not say {words:?}");
    }
}
