//! `redislock doctor`: what endangers locks on a server, why, and which setting prevents it.

mod facts;
mod findings;
mod rights;

use std::io::IsTerminal as _;

use serde_json::json;

use crate::connect::Target;
use crate::doctor::facts::Facts;
pub(crate) use crate::doctor::facts::fields;
use crate::doctor::findings::{Finding, Severity, findings, is_down};
use crate::failure::Failure;
use crate::locks::{print, print_json};
use crate::options::Doctor;
use crate::text::printable;

pub(crate) fn main(target: &Target, asked: &Doctor) -> Result<u8, Failure> {
    let (nodes, down) = target.nodes()?;
    let mut servers: Vec<_> =
        down.iter().map(|(address, why)| (address.clone(), vec![is_down(why)])).collect();
    for mut node in nodes {
        let facts = Facts::of(&mut node)?;
        servers.push((node.address.clone(), findings(&facts)));
    }
    let worst = servers.iter().flat_map(|(_, found)| found).map(|finding| finding.severity).max();
    if asked.json {
        let servers: Vec<_> =
            servers.iter().map(|(address, found)| json!({ "server": address, "findings": found })).collect();
        print_json(&json!(servers))?;
    } else {
        let colours = std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        for (address, found) in &servers {
            print(&shown(address, found, colours))?;
        }
    }
    Ok(match worst {
        Some(Severity::Danger) => 2,
        Some(Severity::NotChecked) => 3,
        Some(Severity::Warning) => 1,
        None => 0,
    })
}

fn shown(address: &str, found: &[Finding], colours: bool) -> String {
    let mut text = format!("{address}\n");
    for finding in found {
        let (word, colour) = match finding.severity {
            Severity::Danger => ("DANGER", "\u{1b}[31m"),
            Severity::Warning => ("warning", "\u{1b}[33m"),
            Severity::NotChecked => ("not checked", "\u{1b}[35m"),
        };
        let word = if colours { format!("{colour}{word}\u{1b}[0m") } else { word.to_owned() };
        text += &format!(
            "\n{word}: {}\n  why:  {}\n  mend: {}\n  see:  {}\n",
            printable(&finding.what),
            finding.why,
            finding.mend,
            finding.page
        );
    }
    if found.is_empty() {
        text += "\nnothing endangers locks here, by its settings\n";
    }
    text.push('\n');
    text
}
