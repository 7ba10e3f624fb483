//! Redislock beside what people use today. `scripts/bench` runs it; `docs/bench.md` tells what is compared and how.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark that meets what it did not expect is to stop, and say where"
)]

mod clients;
mod contest;
mod failures;
mod handover;
mod hostile;
mod hosts;
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
    let mut report = Report::new(version, plan.quick);
    plan.caption = report.machine.caption();
    plan.clear_folder();
    for part in PARTS.into_iter().filter(|part| plan.includes(part)) {
        progress(part);
        let begin = Instant::now();
        match part {
            "throughput" => throughput::run(&plan, &mut report),
            "handover" => handover::run(&plan, &mut report),
            "clients" => clients::run(&plan, &mut report),
            "tasks" => tasks::run(&plan, &mut report),
            "failures" => failures::run(&plan, &mut report),
            "waiters" => waiters::run(&plan, &mut report),
            "lapse" => lapse::run(&plan, &mut report),
            "memory" => memory::run(&plan, &mut report),
            "instructions" => instructions::run(&mut report),
            "session" => session::run(&plan, &mut report),
            "stall" => stall::run(&plan, &mut report),
            "hostile" => hostile::run(&plan, &mut report),
            "shared" => shared::run(&plan, &mut report),
            "several" => several::run(&plan, &mut report),
            "sync" => sync::run(&plan, &mut report),
            "notify" => notify::run(&plan, &mut report),
            _ => throughput::run_durable(&plan, &mut report),
        }
        report.took(part, begin.elapsed());
    }
    report.finish();
    // First: what reads the table may have gone away.
    keep::keep(&plan, &report);
    println!("\n{}", report.in_full());
}
