//! The pages for operators and the packaged configuration: their links, settings and ACL rules are correct.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Server, Setup, root};

pub(super) fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs/operations").join(name)).unwrap()
}

/// Collects all pages in a folder and its subfolders.
fn pages_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages_in(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Returns the page without its code and examples.
pub(super) fn prose(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        !fenced && !fence && !line.starts_with("    ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the anchors of the page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let names = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let anchors = names.map(|name| {
        let kept = name.chars().filter(|&sign| sign.is_alphanumeric() || " -_".contains(sign));
        kept.collect::<String>().replace(' ', "-")
    });
    anchors.collect()
}

/// Whether the target of a page's link exists: the file, and the heading in it.
pub(super) fn leads_somewhere(page: &Path, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    match anchor {
        "" => target.exists(),
        anchor => fs::read_to_string(&target).is_ok_and(|text| anchors(&prose(&text)).contains(anchor)),
    }
}

/// All pages for readers.
pub(super) fn all_pages() -> Vec<PathBuf> {
    let mut pages: Vec<_> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(|page| root().join(page)).into();
    pages_in(&root().join("docs"), &mut pages);
    pages
}

#[test]
fn every_link_of_the_pages_leads_somewhere() {
    let mut broken = Vec::new();
    for page in &all_pages() {
        let text = prose(&fs::read_to_string(page).unwrap());
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.contains("://") {
                continue;
            }
            if !leads_somewhere(page, link) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The rows after an empty line would be shown as plain text.
#[test]
fn no_empty_line_splits_a_table_of_the_pages() {
    let is_row = |line: &str| line.starts_with('|');
    for page in &all_pages() {
        let text = prose(&fs::read_to_string(page).unwrap());
        for lines in text.lines().collect::<Vec<_>>().windows(4) {
            let splits =
                is_row(lines[0]) && lines[1].is_empty() && is_row(lines[2]) && !lines[3].starts_with("|-");
            assert!(!splits || lines[3].starts_with("| -"), "{}: {}", page.display(), lines[2]);
        }
    }
}

#[test]
fn the_table_and_the_packaged_file_have_each_setting_with_its_default() {
    let page = page("configure.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `lock."));
    let table: BTreeMap<_, _> = rows
        .map(|row| {
            let mut columns = row.split('|').map(|column| column.trim().trim_end_matches('`'));
            (format!("lock.{}", columns.next().unwrap()), columns.next().unwrap().to_owned())
        })
        .collect();
    let file = fs::read_to_string(root().join("packaging/redislock.conf")).unwrap();
    let lines = file.lines().filter_map(|line| line.strip_prefix("# lock."));
    let packaged: BTreeMap<_, _> = lines
        .map(|line| {
            let (name, value) = line.split_once(' ').unwrap();
            (format!("lock.{name}"), value.to_owned())
        })
        .collect();
    let server = Setup::new().shipped().start();
    let known: Vec<String> = server.client().ask("CONFIG GET lock.*");
    let known: BTreeMap<_, _> = known.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    assert_eq!(table, known, "configure.md");
    assert_eq!(packaged, known, "packaging/redislock.conf");
}

#[test]
fn the_rules_work_that_the_page_shows() {
    let page = page("secure.md");
    let rules: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("    ACL SETUSER ")).collect();
    assert!(!rules[0].contains("@lock"), "the first one works on each server");
    let server = Server::start();
    let mut operator = server.client();
    let categories: Vec<String> = operator.ask("ACL CAT");
    for rule in rules {
        if rule.contains("@lock") && !categories.iter().any(|category| category == "lock") {
            continue;
        }
        let name = rule.split(' ').next().unwrap();
        operator.ask::<i64>(&format!("ACL DELUSER {name}"));
        operator.ask::<()>(&format!("ACL SETUSER {rule}"));
        let mut client = server.client();
        client.ask::<()>(&format!("AUTH {name} secret"));
        let mut may = |command: &str| match client.send(command) {
            Err(error) => !error.starts_with("NOPERM"),
            Ok(_) => true,
        };
        let is_application = name == "app";
        assert!(may("PING") && may("LOCK.INFO invoice:42"), "{rule}");
        assert_eq!(may("LOCK.ACQUIRE invoice:42 OWNER alice ONCE"), is_application, "{rule}");
        assert_eq!(may("LOCK.RELEASE invoice:42 alice"), is_application, "{rule}");
        for command in [
            "LOCK.WAITS",
            "LOCK.BREAK invoice:42",
            "CLIENT LIST",
            "CLIENT KILL ID 999999",
            "CLIENT UNBLOCK 999999",
        ] {
            assert_eq!(may(command), !is_application, "{rule}: {command}");
        }
        assert!(!may("LOCK.ACQUIRE other OWNER alice") && !may("DEL invoice:42"), "{rule}");
        for subscribe in ["SUBSCRIBE", "SSUBSCRIBE"] {
            assert_eq!(may(&format!("{subscribe} redislock:web-7")), rule.contains("&redislock:*"), "{rule}");
            assert!(!may(&format!("{subscribe} locks:reports:web-7")), "{rule}");
        }
    }
}
