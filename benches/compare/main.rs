//! Compares Redislock with the locks that people use today. `scripts/bench` runs it; `docs/bench.md` tells what is compared and how.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a part that meets what it did not expect stops, and says where"
)]

mod clients;
mod cluster;
mod failures;
mod handover;
mod hosts;
mod instructions;
mod keep;
mod line;
mod memory;
mod net;
mod notify;
mod ping;
mod process;
mod programs;
mod report;
mod resp;
mod rivals;
mod rounds;
mod server;
mod stall;
mod stats;
mod throughput;
mod waiters;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::exit;
use std::time::Instant;
use std::{env, fs};

use clap::Parser;
use clap::builder::PossibleValuesParser;
use report::Report;
use rounds::{Plan, progress};
use server::{Server, Setup};

type Part = (&'static str, fn(&Plan, &mut Report));

/// The parts, in the order in which they run.
const PARTS: [Part; 11] = [
    ("instructions", instructions::run),
    ("throughput", throughput::run),
    ("handover", handover::run),
    ("clients", clients::run),
    ("failures", failures::run),
    ("waiters", waiters::run),
    ("memory", memory::run),
    ("notify", notify::run),
    ("cluster", cluster::run),
    ("stall", stall::run),
    ("hostile", stall::run_hostile),
];

/// What the command line asks for; scripts/bench and scripts/instructions tell more.
#[derive(Parser)]
struct Arguments {
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// Keeps the figures of the parts that ran in docs/bench and README.md, too
    #[arg(long)]
    save: bool,
    /// Compares counts of instructions with the recorded ones
    #[arg(long)]
    check: bool,
    /// Records the counts of instructions
    #[arg(long)]
    record: bool,
    /// The parts to run; none: all parts
    #[arg(value_parser = PossibleValuesParser::new(PARTS.map(|(part, _)| part)))]
    parts: Vec<String>,
}

fn main() {
    let Arguments { quick, save, check, record, parts } = Arguments::parse();
    let names = PARTS.map(|(part, _)| part);
    let version = Server::start(Setup::MODULE).version();
    if check {
        return instructions::check(version);
    }
    if record {
        return instructions::record(version);
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let plan = Plan { quick, folder: target.join("bench") };
    fs::create_dir_all(&plan.folder).expect("a folder for programs");
    let mut failed = Vec::new();
    for (part, measure) in
        PARTS.into_iter().filter(|(part, _)| parts.is_empty() || parts.iter().any(|p| p == part))
    {
        progress(part);
        let mut report = Report::new(version.clone(), quick);
        let begin = Instant::now();
        // A failure must not lose what the other parts have measured in most of an hour.
        if catch_unwind(AssertUnwindSafe(|| measure(&plan, &mut report))).is_err() {
            report.warn(&format!("{part} failed: its rows are not whole"));
            failed.push(part);
        }
        report.finish(begin.elapsed());
        // The results are saved before they are printed, because whoever reads the output may have closed it.
        if save && !failed.contains(&part) {
            keep::keep(&names, part, &report);
        }
        println!("\n{part}: {}{}", report.about(), report.tables(true));
    }
    if !failed.is_empty() {
        eprintln!("error: {} failed: see above; nothing of that is kept in docs", failed.join(", "));
        exit(1);
    }
}
