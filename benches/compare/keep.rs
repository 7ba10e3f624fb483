//! Writes a part's results into the documentation, with `--save`: into the part's section on the page of the server's kind, and into the
//! tables of `docs/bench.md` and `README.md`.

use std::collections::BTreeMap;
use std::fs;

use crate::report::Report;

/// The kinds of server whose results are kept, as their names begin. Only the first kind's page shows the figures behind the ratios, and
/// only its figures go into the tables, so that these come from one machine and one server.
const KINDS: [&str; 2] = ["Redis", "Valkey"];

const PACKAGE: &str = "Redislock's package";
const RAW: &str = "LOCK.ACQUIRE ... BLOCK 0";

pub(crate) fn keep(parts: &[&str], part: &str, report: &Report) {
    let kind = KINDS.into_iter().find(|kind| report.machine.server.starts_with(kind));
    let kind = kind.expect("a kind of server");
    // These parts measure client libraries, whose results are the same on both kinds of server.
    if kind != KINDS[0] && ["clients", "failures"].contains(&part) {
        return;
    }
    let section = format!("\n{}{}", report.about(), report.tables(kind == KINDS[0]));
    let page = format!("docs/bench/{}.md", kind.to_lowercase());
    change(&page, |page| with_section(page, parts, part, &section));
    if kind == KINDS[0] {
        for page in ["docs/bench.md", "README.md"] {
            change(page, |page| filled(page, report));
        }
    }
}

fn change(path: &str, change: impl Fn(&str) -> String) {
    let page = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    fs::write(path, change(&page)).unwrap_or_else(|error| panic!("{path}: {error}"));
}

fn with_section(page: &str, parts: &[&str], part: &str, section: &str) -> String {
    let (head, sections) = page.split_once("\n## ").unwrap_or((page, ""));
    let sections = sections.split("\n## ").filter_map(|section| section.split_once('\n'));
    let mut sections: BTreeMap<_, _> = sections.collect();
    sections.insert(part, section);
    let sections = parts.iter().filter_map(|part| Some(format!("\n## {part}\n{}", sections.get(part)?)));
    format!("{head}{}", sections.collect::<String>())
}

/// Returns the page with its tables filled in. The first two cells of a line select the contestant, the titles select the figures.
fn filled(page: &str, report: &Report) -> String {
    let mut titles: Vec<&str> = Vec::new();
    let line = |line| {
        let Some(cells) = str::strip_prefix(line, '|').and_then(|line| line.strip_suffix('|')) else {
            titles.clear();
            return format!("{line}\n");
        };
        let cells: Vec<_> = cells.split('|').collect();
        if titles.is_empty() {
            titles = cells.iter().map(|title| title.trim()).collect();
        }
        let cell =
            |(cell, title): (&&str, &&str)| match figure(report, cells[0].trim(), cells[1].trim(), title) {
                Some(figure) => format!("| {figure:width$} ", width = cell.chars().count().saturating_sub(2)),
                None => format!("|{cell}"),
            };
        cells.iter().zip(&titles).map(cell).collect::<String>() + "|\n"
    };
    page.lines().map(line).collect()
}

/// Returns the text of a cell: from a row of the report, or of 8 clients in a language, with the client library in brackets.
fn figure(report: &Report, work: &str, beside: &str, title: &str) -> Option<String> {
    let language = work.split(" (").next().unwrap_or(work);
    let handovers = format!("handovers, 8 clients, {language}");
    let of = |who: &str| report.figures.iter().find(|figure| figure.work == handovers && figure.who == who);
    let row =
        |work: &str, beside: &str| report.rows.iter().find(|row| row.work == work && row.beside == beside);
    let rate = |who| Some(short(of(who)?.value.median));
    let ratio = |beside| {
        let row = row(&format!("handovers/s, 8 clients, {language} with our package"), beside)?;
        Some(row.value.in_short("x"))
    };
    match title {
        "ratio" => row(work, beside).map(|row| row.value.in_short(row.unit)),
        "by server CPU" => row(work, beside)?.cpu.map(|cpu| cpu.in_short("x")),
        "measured" => {
            row(work, beside).map(|_| ()).or(of(PACKAGE).map(|_| ())).map(|()| report.machine.caption())
        }
        "our package" => rate(PACKAGE),
        "raw command" => rate(RAW),
        "package / raw" => ratio(RAW),
        "the next begins, µs" => {
            let work = format!("from release to the next begin, 1 ms of work inside, {language}");
            let of =
                |who: &str| report.figures.iter().find(|figure| figure.work == work && figure.who == who);
            let begins = |who| of(who).map_or("-".into(), |figure| short(figure.value.median));
            of(PACKAGE).map(|_| [PACKAGE, RAW].map(begins).join(" / "))
        }
        "that lock" => rate(beside),
        "package / that" => ratio(beside),
        "server CPU of each, µs" => {
            let cpu =
                |who| of(who).and_then(|figure| figure.cpu_us).map_or("-".into(), |cpu| short(cpu.median));
            of(PACKAGE).map(|_| [PACKAGE, RAW, beside].map(cpu).join(" / "))
        }
        _ => None,
    }
}

/// "0.1", "20", "1,000".
fn short(value: f64) -> String {
    if value < 1.0 {
        return format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').into();
    }
    let digits = format!("{value:.0}");
    let threes: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    threes.join(",")
}
