//! What is kept of a run: results and pictures in the target folder; with `--save` in `docs/bench` too, by kind of server,
//! with the tables in `docs/bench.md` and, of all kinds side by side, in `README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::plan::{Plan, progress};
use crate::report::{Machine, Report, table};

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
    insert(Path::new("docs/bench.md"), &format!("figures of {kind}"), &report.in_full());
    insert(Path::new("README.md"), "figures", &side_by_side());
    progress("kept in docs/bench.md, docs/bench and README.md");
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

/// What a newcomer decides by, by its work and what it stands beside; the rest is in docs/bench.md.
const FOR_NEWCOMERS: [(&str, &str); 8] = [
    ("acquire + release, P=16", "SET NX PX + compare-and-delete in Lua"),
    ("acquire + release, P=1", "SET NX PX + compare-and-delete in Lua"),
    ("handovers/s, 8 clients with Jedis", "Redisson's RFairLock"),
    ("handovers/s, 8 clients with redis-py", "redis-py's Lock: SET NX PX every 100 ms"),
    ("handovers/s, 8 clients with go-redis", "PostgreSQL's pg_advisory_lock, with pgx"),
    ("grants/s, 7 readers and 1 writer with Jedis", "Redisson's RReadWriteLock"),
    (
        "grants/s, 16 clients, 2 of 8 locks each time with Jedis",
        "Redisson's MultiLock, locks in the order of their names",
    ),
    ("memory of a held lock, UUID owner", "SET of the token with PX"),
];

/// The ratios on all kinds of server.
fn side_by_side() -> String {
    let files = KINDS.map(|kind| folder_of(kind).join("results.json"));
    let kept: Vec<Report> = files.iter().filter(|file| file.exists()).map(|file| read_report(file)).collect();
    let mut text = String::new();
    for report in &kept {
        let Machine { date, server, processor, cores, .. } = &report.machine;
        let warned =
            if report.has_warnings() { "; with [warnings](docs/bench.md#the-latest-figures)" } else { "" };
        let quick = if report.quick { ", a quick run" } else { "" };
        text += &format!("- {server}: {date}{quick}, {processor}, {cores} cores{warned}\n");
    }
    let titles =
        ["work", "compared with"].into_iter().chain(kept.iter().map(|kept| &kept.machine.server[..]));
    let lines = FOR_NEWCOMERS.map(|(work, beside)| {
        let row = |kept: &Report| {
            let row = kept.rows.iter().find(|row| (&row.work[..], &row.beside[..]) == (work, beside));
            row.map_or(String::new(), |row| row.value.in_short(&row.unit))
        };
        [work.into(), beside.into()].into_iter().chain(kept.iter().map(row)).collect()
    });
    format!("{text}\n{}", table(&titles.collect::<Vec<_>>(), lines.into_iter()))
}
