//! What is kept of a run: results and pictures in the target folder; with `--save` in `docs/bench` too, by kind of server,
//! with the tables in `docs/bench.md` and, of all kinds side by side, on its first screen and in `README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::plan::{Plan, progress};
use crate::report::{Machine, Report, table};
use crate::stats::Spread;

/// The kinds of server whose figures are kept, as their names begin; also of their folders.
const KINDS: [&str; 2] = ["Redis", "Valkey"];

/// Writes the results to files.
pub(crate) fn keep(plan: &Plan, report: &Report) {
    write(&plan.folder.join("results.json"), &report.json());
    progress(&format!("results and pictures: {}", plan.folder.display()));
    if !plan.save {
        return;
    }
    let kind =
        KINDS.into_iter().find(|kind| report.machine.server.starts_with(kind)).expect("a kind of server");
    let docs = folder_of(kind);
    fs::create_dir_all(&docs).expect("a folder for the results");
    for entry in fs::read_dir(&plan.folder).expect("the folder for the results") {
        let entry = entry.expect("an entry of it");
        fs::copy(entry.path(), docs.join(entry.file_name())).expect("a copy");
    }
    write_pages();
    progress("kept in docs/bench.md, docs/bench and README.md");
}

/// Writes the tables of the pages from the kept results.
pub(crate) fn write_pages() {
    let (bench, readme) = (Path::new("docs/bench.md"), Path::new("README.md"));
    let kept: Vec<(&str, Report)> = KINDS
        .into_iter()
        .map(|kind| (kind, folder_of(kind).join("results.json")))
        .filter(|(_, file)| file.exists())
        .map(|(kind, file)| (kind, read_report(&file)))
        .collect();
    for (kind, report) in &kept {
        insert(bench, &format!("figures of {kind}"), &report.in_full());
    }
    let reports: Vec<_> = kept.iter().map(|(_, report)| report).collect();
    insert(bench, "figures", &side_by_side(&reports, &AT_A_GLANCE, true));
    insert(readme, "figures", &side_by_side(&reports, &FOR_NEWCOMERS, false));
}

fn folder_of(kind: &str) -> PathBuf {
    Path::new("docs/bench").join(kind.to_lowercase())
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read_report(path: &Path) -> Report {
    serde_json::from_str(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Replaces what stands between the two lines of a page that name that.
fn insert(page: &Path, name: &str, figures: &str) {
    let (begin, end) =
        (format!("<!-- {name}: scripts/bench --save writes them -->"), format!("<!-- end of {name} -->"));
    let text = read(page);
    let (before, rest) =
        text.split_once(&begin).unwrap_or_else(|| panic!("{} has no {begin}", page.display()));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{} has no {end}", page.display()));
    write(page, &format!("{before}{begin}\n\n{figures}\n{end}{after}"));
}

/// What a newcomer decides by, by its work and what it stands beside: also what Redislock is slower at.
const FOR_NEWCOMERS: [(&str, &str); 5] = [
    ("handovers/s, 8 clients with go-redis", "redsync: SET NX PX every 50 to 250 ms"),
    ("handovers/s, 8 clients with Jedis", "Redisson's RFairLock"),
    ("handovers/s, 8 clients with go-redis", "PostgreSQL's pg_advisory_lock, with pgx"),
    ("acquire + release, P=1", "SET NX PX + compare-and-delete in Lua"),
    ("acquire + release, P=16", "SET NX PX + DEL"),
];

/// What the first screen of docs/bench.md has.
const AT_A_GLANCE: [(&str, &str); 10] = [
    ("handovers/s, 8 clients with go-redis", "redsync: SET NX PX every 50 to 250 ms"),
    ("handovers/s, 8 clients with redis-py", "redis-py's Lock: SET NX PX every 100 ms"),
    ("handovers/s, 8 clients with Jedis", "Redisson's RFairLock"),
    ("handovers/s, 8 clients with go-redis", "PostgreSQL's pg_advisory_lock, with pgx"),
    ("handovers/s, 8 clients on one lock", "BLMOVE of a token"),
    ("acquire + release, P=1", "SET NX PX + compare-and-delete in Lua"),
    ("acquire + release, P=1", "SET NX PX + DEL"),
    ("acquire + release, P=16", "SET NX PX + DEL"),
    ("acquire + release, P=16", "SET NX PX + DELIFEQ"),
    ("memory of a held lock, UUID owner", "SET of the token with PX"),
];

/// These ratios on all kinds of server, with those of the server's processor time if `cpu` says so.
fn side_by_side(kept: &[&Report], rows: &[(&str, &str)], cpu: bool) -> String {
    let mut text = String::new();
    for report in kept {
        let Machine { date, server, processor, cores, .. } = &report.machine;
        let page = if cpu { "" } else { "docs/bench.md" };
        let warned = if report.has_warnings() {
            format!("; with [warnings]({page}#the-latest-figures)")
        } else {
            String::new()
        };
        let quick = if report.quick { ", a quick run" } else { "" };
        text += &format!("- {server}: {date}{quick}, {processor}, {cores} cores{warned}\n");
    }
    let mut titles = vec!["work", "compared with"];
    for report in kept {
        titles.push(&report.machine.server);
        titles.extend(cpu.then_some("by server CPU"));
    }
    let lines = rows.iter().map(|&(work, beside)| {
        let mut line = vec![work.to_owned(), beside.to_owned()];
        for report in kept {
            let row = report.rows.iter().find(|row| (&row.work[..], &row.beside[..]) == (work, beside));
            let short = |value: Option<Spread>| {
                row.zip(value).map_or(String::new(), |(row, value)| value.in_short(&row.unit))
            };
            line.push(short(row.map(|row| row.value)));
            if cpu {
                line.push(short(row.and_then(|row| row.cpu)));
            }
        }
        line
    });
    format!("{text}\n{}", table(&titles, lines))
}
