//! Histories of many clients on real servers that are killed, stopped and replaced. They are first recorded, then judged.
//!
//! `record` has the format; `clients`, `wire`, `turns` and `relay` make a history; `troubles` has more faults of servers; `check` judges
//! it, with `rooms`, `looks`, `order`, `left`, `dead` and `max_hold`. A faulty history is kept beside the test program's other files;
//! `REDISLOCK_HISTORY=file` judges it again. `REDISLOCK_KEEP_HISTORIES=folder` keeps all histories in this folder, for the checkers in
//! `tests/evidence`.

mod check;
mod clients;
mod dead;
mod holds;
mod judge_tests;
mod left;
mod looks;
mod max_hold;
mod order;
mod record;
mod relay;
mod rooms;
mod servers;
mod troubles;
mod turns;
mod wire;

use std::sync::atomic::Ordering;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::support::{Ends, Rng, Server, Setup, figure, freeze, path_in, size, wake};
use check::Figures;
use clients::{LEASE, Shared};
use record::Record;
use relay::relays;
use turns::{Taste, watch, work};

/// How many clients there are of each kind.
const CLIENTS: [(usize, Taste); 3] = [(10, Taste::Plain), (8, Taste::Mixed), (8, Taste::Several)];

/// How many locks are handed from client to client without anybody else touching them.
const RELAYS: [(usize, Taste); 3] = [(2, Taste::Plain), (1, Taste::Mixed), (2, Taste::Several)];

/// The lease, in ms, of clients that end it themselves: a missed end must be noticed before the lease ends.
const LONG: i64 = 10_000;

/// The most histories beyond the requested number.
const MORE_ROUNDS: usize = 9;

/// Returns the length of one history.
fn length() -> Duration {
    Duration::from_secs(size(3, 60))
}

/// Records and judges histories, 20 in the long form. On a busy machine a history contains little, so there are more until enough was
/// judged.
fn histories(mut one: impl FnMut() -> Figures) {
    let rounds = size(1, 20);
    let mut figures = Figures::default();
    for round in 1.. {
        figures += one();
        if round >= rounds && figures.are_enough() {
            return;
        }
        assert!(round < rounds + MORE_ROUNDS, "{figures:?}: nothing to judge");
    }
}

/// Records a history while `trouble` disturbs the server again and again, and judges it. No lease is longer than `longest`.
fn history(
    name: &str,
    server: Server,
    longest: i64,
    trouble: impl FnMut(&mut Server, &Shared, &mut Rng),
) -> Figures {
    judge(name, &record(server, longest, trouble), "")
}

/// Records a history.
fn record(
    mut server: Server,
    longest: i64,
    mut trouble: impl FnMut(&mut Server, &Shared, &mut Rng),
) -> Shared {
    let mut rng = Rng::new();
    let shared = Shared::new(server.port(), longest);
    let all = &shared;
    scope(|scope| {
        for (number, taste) in each(CLIENTS) {
            let rng = rng.fork();
            *shared.working.lock().unwrap() += 1;
            scope.spawn(move || work(all, number, taste, rng));
        }
        for (number, taste) in each(RELAYS) {
            let rng = rng.fork();
            *shared.working.lock().unwrap() += 1;
            scope.spawn(move || relays(all, number, taste, rng));
        }
        let watcher = rng.fork();
        scope.spawn(move || watch(all, watcher));
        let _over = Ends(&shared.over);
        let began = Instant::now();
        while began.elapsed() < length() {
            sleep(Duration::from_millis(100) + rng.up_to(500));
            trouble(&mut server, &shared, &mut rng);
        }
    });
    shared
}

/// Keeps a history for the checker in `tests/evidence`.
fn keep(name: &str, history: &[Record]) {
    let Some(folder) = path_in("REDISLOCK_KEEP_HISTORIES") else { return };
    let prefix = format!("{}-", name.replace(' ', "-"));
    let file = tempfile::Builder::new().prefix(&prefix).suffix(".jsonl").tempfile_in(folder).unwrap();
    record::write(&file.keep().unwrap().1, history).unwrap();
}

/// Returns this many of each kind, numbered.
fn each(counts: [(usize, Taste); 3]) -> impl Iterator<Item = (usize, Taste)> {
    counts.into_iter().flat_map(|(count, taste)| std::iter::repeat_n(taste, count)).enumerate()
}

/// Checks a history for violations of this guarantee, or of all.
fn judge(name: &str, shared: &Shared, guarantee: &str) -> Figures {
    let history = shared.history();
    let (mut faults, figures) = check::check(&history);
    faults.retain(|fault| fault.starts_with(guarantee));
    let asked: usize = history.iter().filter(|record| record.owner().is_some()).count();
    figure(&format!("history, {name}"), format_args!("{asked} commands, {figures:?}"));
    if guarantee.is_empty() {
        keep(name, &history);
    }
    if !faults.is_empty() {
        let (_, path) =
            tempfile::Builder::new().prefix("redislock-history-").tempfile().unwrap().keep().unwrap();
        record::write(&path, &history).unwrap();
        println!("the history is in {}", path.display());
        panic!("{} faults, such as\n{}", faults.len(), faults[..faults.len().min(5)].join("\n"));
    }
    figures
}

#[test]
fn soak_history_of_clients_alone() {
    histories(|| {
        let server = Server::start();
        // The server's own expiry would hide a lapse that the module has missed.
        server.client().ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
        history("clients alone", server, LONG, |_, _, _| {})
    });
}

#[test]
fn soak_history_of_kills_and_stops() {
    let setup = Setup::new().set("appendonly", "yes").set("appendfsync", "always");
    histories(|| {
        history("kills and stops", setup.clone().start(), LONG, |server, _, rng| {
            if rng.percent(50) {
                server.kill_and_restart();
            } else {
                freeze(server);
                sleep(rng.up_to(1500));
                wake(server);
            }
        })
    });
}

/// Each primary has a replica, and the grace is as long as the longest lease.
#[test]
fn soak_history_of_failovers() {
    let args = format!("lock.max-lease {LEASE} lock.default-lease {LEASE} lock.failover-grace {LEASE}");
    let setup = Setup::new().module_args(&args);
    histories(|| {
        let primary = setup.clone().start();
        let mut replica = primary.replica_with(setup.clone());
        history("failovers", primary, LEASE, |primary, shared, rng| {
            sleep(rng.up_to(500));
            primary.kill();
            replica.client().ask::<()>("REPLICAOF NO ONE");
            shared.port.store(replica.port(), Ordering::Relaxed);
            let next = replica.replica_with(setup.clone());
            *primary = std::mem::replace(&mut replica, next);
        })
    });
}

/// Judges a history of an earlier run, from a file.
#[test]
fn history_from_a_file() {
    let Some(path) = path_in("REDISLOCK_HISTORY") else { return };
    let (faults, figures) = check::check(&record::read(&path).unwrap());
    println!("{figures:?}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
