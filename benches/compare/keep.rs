//! What is kept of a run: results and pictures in the target folder; with `--save` in `docs/bench` too, by kind of server and by
//! part, each with its date. From there come a page for each kind of
//! server, and the tables of `docs/bench.md` and `README.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::pictures::short;
use crate::report::{Report, Row, table};
use crate::rounds::Plan;
use crate::stats::Spread;

/// The kinds of server whose figures are kept, as their names begin; also of their folders.
const KINDS: [&str; 2] = ["Redis", "Valkey"];

/// How long a line of a page may be.
const WIDTH: usize = 140;

type Results = BTreeMap<String, Report>;

/// Writes the results of a part to files: for the pages too, if that is asked for.
pub(crate) fn keep(plan: &Plan, save: bool, part: &str, report: &Report) {
    add(&plan.folder, part, report);
    if !save {
        return;
    }
    let kind =
        KINDS.into_iter().find(|kind| report.machine.server.starts_with(kind)).expect("a kind of server");
    let docs = folder_of(kind);
    fs::create_dir_all(&docs).expect("a folder for the results");
    add(&docs, part, report);
    for entry in fs::read_dir(&plan.folder).expect("the folder for the results") {
        let path = entry.expect("an entry of it").path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            fs::copy(&path, docs.join(path.file_name().expect("its name"))).expect("a copy");
        }
    }
}

/// Puts a part's results beside those of other parts.
fn add(folder: &Path, part: &str, report: &Report) {
    let mut all: BTreeMap<String, serde_json::Value> = results_in(folder);
    all.insert(part.into(), serde_json::to_value(report).expect("plain data"));
    write(&folder.join("results.json"), &one_a_line(&all));
}

/// The parts as JSON, with one figure a line, so that a new measurement of a figure changes one line.
fn one_a_line(all: &BTreeMap<String, serde_json::Value>) -> String {
    let field = |(name, value): (&String, &serde_json::Value)| match value.as_array() {
        Some(figures) if !figures.is_empty() => {
            let lines: Vec<_> = figures.iter().map(|figure| format!("   {figure}")).collect();
            format!("  {name:?}: [\n{}]", lines.join(",\n"))
        }
        _ => format!("  {name:?}: {value}"),
    };
    let part = |(part, report): (&String, &serde_json::Value)| {
        let fields: Vec<_> = report.as_object().into_iter().flatten().map(field).collect();
        format!(" {part:?}: {{\n{}}}", fields.join(",\n"))
    };
    format!("{{\n{}\n}}\n", all.iter().map(part).collect::<Vec<_>>().join(",\n"))
}

fn results_in<T: DeserializeOwned>(folder: &Path) -> BTreeMap<String, T> {
    let file = folder.join("results.json");
    if !file.exists() {
        return BTreeMap::new();
    }
    serde_json::from_str(&read(&file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Writes a page of figures for each kind of server, of these parts, and the tables of the other pages, from the kept results.
pub(crate) fn write_pages(parts: &[&str]) {
    let (bench, readme) = (Path::new("docs/bench.md"), Path::new("README.md"));
    for kind in KINDS {
        let all: Results = results_in(&folder_of(kind));
        let mut text = format!("<!-- scripts/bench --pages writes this page -->\n\n# All figures: {kind}\n");
        for (part, report) in parts.iter().filter_map(|&part| Some((part, all.get(part)?))) {
            let packages = if part == "clients" { through_packages(report) + "\n" } else { String::new() };
            text += &format!("\n## {part}\n\n{}{packages}{}", report.about(), report.tables());
        }
        write(&folder_of(kind).with_extension("md"), &text);
    }
    // One machine, one server: the other has pages of its own.
    let all: Results = results_in(&folder_of(KINDS[0]));
    insert(bench, "figures", &at_a_glance(&all, &AT_A_GLANCE));
    insert(readme, "figures", &all.get("clients").map_or(String::new(), for_newcomers));
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

/// Replaces what stands between the two lines of a page that name that.
fn insert(page: &Path, name: &str, figures: &str) {
    let (begin, end) =
        (format!("<!-- {name}: scripts/bench --pages writes them -->"), format!("<!-- end of {name} -->"));
    let text = read(page);
    let (before, rest) =
        text.split_once(&begin).unwrap_or_else(|| panic!("{} has no {begin}", page.display()));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{} has no {end}", page.display()));
    let figures: String = figures.lines().map(wrapped).collect();
    write(page, &format!("{before}{begin}\n\n{figures}\n{end}{after}"));
}

/// A line as pages have it: in several where it is longer than those of other pages, unless it is one of a table.
fn wrapped(line: &str) -> String {
    if line.starts_with('|') {
        return format!("{line}\n");
    }
    let indent = if line.starts_with("- ") { "\n  " } else { "\n" };
    let (mut text, mut width) = (String::new(), 0);
    for word in line.split(' ') {
        let (gap, at) = match width {
            0 => ("", 0),
            _ if width + 1 + word.chars().count() > WIDTH => (indent, indent.len() - 1),
            _ => (" ", width + 1),
        };
        text += &format!("{gap}{word}");
        width = at + word.chars().count();
    }
    text + "\n"
}

/// Whom the first table has: a client library, how the figures name its language and the raw commands, and what users have today.
const PACKAGES: [(&str, &str, &str, &str); 10] = [
    ("Python, redis-py", "Python", RAW, "redis-py's Lock: SET NX PX every 100 ms"),
    ("Node, ioredis", "Node", RAW, "redis-semaphore's Mutex: SET NX PX every 10 ms"),
    ("Java, Lettuce", "Java", RAW, "Redisson's RFairLock"),
    ("Java, raw by Jedis", "Java", "LOCK.ACQUIRE ... BLOCK 0 with Jedis", "Redisson's RFairLock"),
    ("Java, eight JVMs", EIGHT_JVMS, RAW, "Redisson's RFairLock"),
    ("Go, go-redis", "Go", RAW, "redsync: SET NX PX every 50 to 250 ms"),
    ("Go, go-redis", "Go", RAW, "PostgreSQL's pg_advisory_lock, with pgx"),
    ("Rust, redis-rs", "Rust", RAW, ""),
    ("Ruby, redis-rb", "Ruby", RAW, ""),
    ("PHP, phpredis", "PHP", RAW, ""),
];
const EIGHT_JVMS: &str = "Java, eight JVMs";
const RAW: &str = "LOCK.ACQUIRE ... BLOCK 0";
const PACKAGE: &str = "Redislock's package";

/// What part `clients` has measured: how fast a lock goes from client to client, and what that costs the server.
fn through_packages(report: &Report) -> String {
    let lines = PACKAGES.iter().filter_map(|&(shown, language, raw, today)| {
        let figure = |who: &str| {
            let work = format!("handovers, 8 clients, {language}");
            report.figures.iter().find(|figure| figure.work == work && figure.who == who)
        };
        let work = format!("handovers/s, 8 clients, {language} with our package");
        let ratio = |beside| find(report, &work, beside).map_or(String::new(), |row| row.value.in_short("x"));
        let each = [Some(figure(PACKAGE)?), figure(raw), figure(today)];
        let [ours, plain, theirs] =
            each.map(|figure| figure.map_or(String::new(), |figure| short(figure.value.median)));
        let cpu = each.map(|figure| {
            figure.and_then(|figure| figure.cpu_us).map_or("-".into(), |cpu| short(cpu.median))
        });
        let begins = [PACKAGE, raw].map(|who| {
            let work = format!("from release to the next begin, 1 ms of work inside, {language}");
            let figure = report.figures.iter().find(|figure| figure.work == work && figure.who == who);
            figure.map_or("-".into(), |figure| short(figure.value.median))
        });
        let cells =
            [shown.into(), ours, plain, ratio(raw), begins.join(" / "), today.into(), theirs, ratio(today)];
        Some(cells.into_iter().chain([cpu.join(" / ")]).collect())
    });
    let titles = [
        "8 clients want one lock",
        "through our package",
        "raw command",
        "package / raw",
        "the next begins, µs",
        "what users have today",
        "handovers/s",
        "package / that",
        "server CPU of a handover, µs",
    ];
    table(&titles, lines)
}

/// One line for each package: how late the next holder begins where holders work, and how its handovers compare with those of the locks
/// that users have today.
fn for_newcomers(report: &Report) -> String {
    let mut lines: Vec<String> = Vec::new();
    for &(shown, language, _, today) in PACKAGES.iter().filter(|row| row.2 == RAW && row.1 != EIGHT_JVMS) {
        let work = format!("from release to the next begin, 1 ms of work inside, {language}");
        let ours = report.figures.iter().find(|figure| figure.work == work && figure.who == PACKAGE);
        let Some(ours) = ours else { continue };
        let begin = format!("- **{shown}:** {} µs", short(ours.value.median));
        let theirs = find(report, &format!("handovers/s, 8 clients, {language} with our package"), today);
        let times = theirs.map(|row| row.value.median);
        let times =
            times.map(|times| if times < 2.0 { format!("{times:.1}") } else { format!("{times:.0}") });
        let lock = today.split(": ").next().unwrap_or(today);
        let compared = times.map_or(String::new(), |times| format!("{times} times the handovers of {lock}"));
        match lines.last_mut().filter(|line| line.starts_with(&begin)) {
            Some(line) => *line += &format!("; {compared}"),
            None if compared.is_empty() => lines.push(begin),
            None => lines.push(format!("{begin}, {compared}")),
        }
    }
    lines.join("\n") + "\n"
}

fn find<'a>(report: &'a Report, work: &str, beside: &str) -> Option<&'a Row> {
    report.rows.iter().find(|row| row.work == work && row.beside == beside)
}

/// A part, its work and what it stands beside.
type Shown = (&'static str, &'static str, &'static str);

const IN_JAVA: &str = "grants/s, 100 tasks on locks of their own in a Java program";
const IN_GO: &str = "grants/s, 100 tasks on locks of their own in a Go program";
/// What the first screen of docs/bench.md has.
const AT_A_GLANCE: [Shown; 9] = [
    ("handover", "handovers/s, 8 clients on one lock", "BLMOVE of a token"),
    ("clients", IN_JAVA, "Spring's RedisLockRegistry: SET NX PX in Lua every 100 ms"),
    ("clients", IN_JAVA, "ShedLock's RedisLockProvider"),
    ("clients", IN_GO, "redsync: SET NX PX every 50 to 250 ms"),
    ("throughput", "acquire + release, P=1", "SET NX PX + compare-and-delete in Lua"),
    ("throughput", "acquire + release, P=1", "SET NX PX + DEL"),
    ("throughput", "acquire + release, P=16", "SET NX PX + DEL"),
    ("throughput", "acquire + release, P=16", "re-entrant hash in Lua with PUBLISH"),
    ("memory", "memory of a held lock, UUID owner", "SET of the token with PX"),
];
/// The packages beside raw commands, then these ratios with those of the server's processor time. Each table says when and where.
fn at_a_glance(all: &Results, rows: &[Shown]) -> String {
    let mut text = String::new();
    if let Some(clients) = all.get("clients") {
        text += &format!("{}{}\n", clients.about(), through_packages(clients));
    }
    let reports = rows.iter().filter_map(|(part, ..)| all.get(*part));
    let quick = |report: &Report| if report.quick { ", a quick run" } else { "" };
    let mut dates: Vec<_> =
        reports.map(|report| format!("{}{}", report.machine.caption(), quick(report))).collect();
    dates.sort_unstable();
    dates.dedup();
    text += &format!(
        "Tasks on locks of their own through the packages, and prepared commands without a client library ({}):\n\n",
        dates.join("; ")
    );
    let lines = rows.iter().map(|&(part, work, beside)| {
        let row = all.get(part).and_then(|report| find(report, work, beside));
        let short = |value: Option<Spread>| {
            row.zip(value).map_or(String::new(), |(row, value)| value.in_short(&row.unit))
        };
        vec![work.into(), beside.into(), short(row.map(|row| row.value)), short(row.and_then(|row| row.cpu))]
    });
    text + &table(&["work", "compared with", "ratio", "by server CPU"], lines)
}
