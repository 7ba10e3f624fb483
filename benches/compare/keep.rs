//! What is kept of a run: results and pictures in the target folder; with `--save` in `docs/bench` too, by kind of server,
//! with the tables in `docs/bench.md` and, of all kinds side by side, in `README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::plan::{Plan, progress};
use crate::report::{Machine, Report, Row, table};

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

impl Row {
    /// Whether it helps to choose a lock: not where the time goes, and how much the module costs the others.
    fn is_for_users(&self) -> bool {
        !self.work.starts_with("instructions") && !self.beside.ends_with("module loaded")
    }

    fn is_of(&self, other: &Self) -> bool {
        (&self.work, &self.beside) == (&other.work, &other.beside)
    }

    fn cell(&self) -> String {
        let verdict = match self.bound.map(|bound| bound.is_met(self.value)) {
            Some(true) => ", met",
            Some(false) => ", **missed**",
            None => "",
        };
        self.value.in_short(&self.unit) + verdict
    }
}

/// The ratios on all kinds of server.
fn side_by_side() -> String {
    let files = KINDS.map(|kind| folder_of(kind).join("results.json"));
    let kept: Vec<Report> = files.iter().filter(|file| file.exists()).map(|file| read_report(file)).collect();
    let mut text = String::new();
    for report in &kept {
        let Machine { date, server, processor, cores, .. } = &report.machine;
        let warned =
            if report.has_warnings() { "; with [warnings](docs/bench.md#the-latest-figures)" } else { "" };
        text += &format!("- {server}: {date}, {processor}, {cores} cores{warned}\n");
    }
    let mut rows: Vec<&Row> = Vec::new();
    for row in kept.iter().flat_map(|kept| &kept.rows).filter(|row| row.is_for_users()) {
        if !rows.iter().any(|known| known.is_of(row)) {
            rows.push(row);
        }
    }
    let titles =
        ["work", "beside", "bound"].into_iter().chain(kept.iter().map(|kept| &kept.machine.server[..]));
    let lines = rows.into_iter().map(|row| {
        let bound = row.bound.map_or(String::new(), |bound| bound.text(&row.unit));
        let found = kept.iter().map(|kept| kept.rows.iter().find(|other| other.is_of(row)));
        let cells = found.map(|row| row.map_or(String::new(), Row::cell));
        [row.work.clone(), row.beside.clone(), bound].into_iter().chain(cells).collect()
    });
    format!("{text}\n{}", table(&titles.collect::<Vec<_>>(), lines))
}
