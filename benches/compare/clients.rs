//! Real client programs, in their own languages, that want one lock: through `LOCK.ACQUIRE ... BLOCK 0`, and through other
//! locks as their users take them. The programs are in benches/clients.

use std::time::Duration;

use crate::hosts::Host;
use crate::mixes;
use crate::pictures::{Bar, Group, bars};
use crate::programs::{Language, Lock, Program, hosted, tables};
use crate::report::Report;
use crate::rounds::{Plan, Rounds, Sample, percentiles, times};

/// How often a turn is repeated at most.
const TRIES: usize = 3;

/// Handovers per second, and from one client's grant, which it releases at once, to the grant of the next, where that is another,
/// in µs. None: on a machine that has other things to do, a turn may come to nothing.
fn contest(language: &Language, lock: &Lock, host: &Host, seconds: u32) -> Option<Sample> {
    let Language { run, mode, processes, .. } = language;
    let start = |_| Program::start(run, mode, host, lock, &seconds.to_string());
    let mut programs: Vec<Program> = (0..*processes).map(start).collect();
    programs.iter_mut().for_each(Program::wait_until_ready);
    let cpu_before = host.cpu_ns();
    programs.iter_mut().for_each(|program| program.tell("go"));
    // Each with the client that it was for: a process, or one of several in a process.
    let mut grants: Vec<(u64, (usize, String))> = Vec::new();
    for (number, program) in programs.into_iter().enumerate() {
        grants.extend(program.finish().iter().map(|line| {
            let (time, client) = line.split_once(' ').unwrap_or((line, ""));
            (time.parse().expect("a time"), (number, client.into()))
        }));
    }
    let cpu = host.cpu_ns() - cpu_before;
    grants.sort_unstable();
    let changes = grants.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    let times: Vec<f64> = changes.map(|pair| (pair[1].0 - pair[0].0) as f64 / 1e3).collect();
    if times.is_empty() {
        return None;
    }
    let wall = Duration::from_nanos(grants[grants.len() - 1].0 - grants[0].0);
    Some(Sample { times: times.clone(), ..Sample::rate(times.len() as f64, wall, cpu) })
}

/// What is compared, as rows name it.
fn work(language: &Language, lock: &Lock) -> String {
    let with = match (&lock.who[..], &language.client[..]) {
        ("package", _) => "our package",
        ("session", _) => "raw commands by Jedis and SESSION",
        ("redislock", "Lettuce") => "raw commands by Jedis",
        _ => "raw commands",
    };
    format!("handovers/s, 8 clients, {} with {with}", language.name)
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let (turns, seconds) = (plan.pick(5, 2), plan.pick(3, 2));
    let mut groups = Vec::new();
    for language in &tables().languages {
        let Language { run, name, ours, peers, .. } = language;
        let locks = ours.iter().chain(peers).map(String::as_str);
        let hosted = hosted(plan, report, run, &format!("clients, {name}"), locks);
        if hosted.is_empty() {
            continue;
        }
        let locks: Vec<&Lock> = hosted.iter().map(|(lock, _)| *lock).collect();
        let start = || hosted.iter().map(|(lock, host)| (lock.name.clone(), (*lock, host))).collect();
        let turn = |(lock, host): &mut (&'static Lock, &Host)| {
            let who = format!("{name}, {}", lock.name);
            let mut samples = (0..TRIES).map(|_| contest(language, lock, host, seconds));
            samples.next().flatten().unwrap_or_else(|| {
                report.warn(&format!("{who}: a turn without a handover was repeated"));
                samples.flatten().next().unwrap_or_else(|| panic!("{who}: the lock is not handed over"))
            })
        };
        let what = format!("handovers, 8 clients, {name}");
        let rounds = Rounds::play(&what, "per second", 1, 1..=turns, start, turn);
        let (ours, peers) = locks.split_at(ours.len());
        let [package, raw @ ..] = ours else { panic!("{name} has no package") };
        let row = |ours: &Lock, other: &Lock| rounds.row(&work(language, ours), &ours.name, &other.name);
        let raw = raw.iter().filter(|raw| raw.who != "session");
        report.rows.extend(raw.filter_map(|raw| row(package, raw)));
        let pairs = ours.iter().flat_map(|ours| peers.iter().map(move |peer| (ours, peer)));
        report.rows.extend(pairs.filter_map(|(ours, peer)| row(ours, peer)));
        let figures = rounds.figures(|samples| {
            let [half, most, max] = percentiles(&times(samples));
            format!("from grant to grant p50 {half:.0}, p99 {most:.0}, max {max:.0} µs")
        });
        let bars = figures.iter().map(|figure| Bar { name: figure.who.clone(), value: figure.value.median });
        groups.push(Group { title: name.clone(), bars: bars.collect() });
        report.figures.extend(figures);
    }
    if !groups.is_empty() {
        bars(plan, "clients", "Handovers per second, 8 clients on one lock", &groups);
    }
    mixes::run(plan, report, "clients");
}
