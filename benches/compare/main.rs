//! Redislock beside what people use today. `scripts/bench` runs it; `docs/bench.md` tells what is compared and how.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a part that meets what it did not expect stops, and says where"
)]

mod attack;
mod clients;
mod contest;
mod failures;
mod handover;
mod hostile;
mod hosts;
mod install;
mod instructions;
mod joins;
mod keep;
mod lapse;
mod load;
mod memory;
mod mixes;
mod net;
mod notify;
mod pictures;
mod plan;
mod programs;
mod readers;
mod report;
mod resp;
mod rivals;
mod server;
mod session;
mod several;
mod shared;
mod stall;
mod stats;
mod sync;
mod tasks;
mod throughput;
mod waiters;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::exit;
use std::time::Instant;

use plan::{Guard, PARTS, Plan, progress};
use report::Report;
use server::{Server, Setup};

fn main() {
    let mut plan = Plan::from_arguments();
    if plan.pages {
        return keep::write_pages();
    }
    let version = Server::start(Setup::MODULE).version();
    match plan.guard {
        Some(Guard::Check) => return instructions::check(version),
        Some(Guard::Record) => return instructions::record(version),
        None => (),
    }
    plan.caption = Report::new(version.clone(), plan.quick).machine.caption();
    plan.clear_folder();
    let mut failed = Vec::new();
    for part in PARTS.into_iter().filter(|part| plan.includes(part)) {
        progress(part);
        let mut report = Report::new(version.clone(), plan.quick);
        let begin = Instant::now();
        // What the others have measured in most of an hour is not lost with it.
        if catch_unwind(AssertUnwindSafe(|| measure(part, &plan, &mut report))).is_err() {
            report.warn(&format!("{part} failed: its rows are not whole"));
            failed.push(part);
        }
        report.finish(begin.elapsed());
        // First: what reads the table may have gone away.
        keep::keep(&plan, part, &report, !failed.contains(&part));
        println!("\n{part}: {}", report.in_full());
    }
    progress(&format!("results and pictures: {}", plan.folder.display()));
    if plan.save {
        keep::write_pages();
        progress("kept in docs/bench, docs/bench.md and README.md");
    }
    if !failed.is_empty() {
        eprintln!("error: {} failed: see above; nothing of that is kept in docs", failed.join(", "));
        exit(1);
    }
}

fn measure(part: &str, plan: &Plan, report: &mut Report) {
    match part {
        "throughput" => throughput::run(plan, report),
        "handover" => handover::run(plan, report),
        "clients" => clients::run(plan, report),
        "tasks" => tasks::run(plan, report),
        "failures" => failures::run(plan, report),
        "waiters" => waiters::run(plan, report),
        "lapse" => lapse::run(plan, report),
        "memory" => memory::run(plan, report),
        "instructions" => instructions::run(report),
        "session" => session::run(plan, report),
        "stall" => stall::run(plan, report),
        "hostile" => hostile::run(plan, report),
        "shared" => {
            shared::run(plan, report);
            readers::run(plan, report);
        }
        "several" => several::run(plan, report),
        "sync" => sync::run(plan, report),
        "notify" => notify::run(plan, report),
        _ => throughput::run_durable(plan, report),
    }
}
