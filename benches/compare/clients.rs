//! Runs real client programs, in their own languages, from benches/clients. In some, clients contend for one lock: through our packages,
//! through `LOCK.ACQUIRE ... BLOCK 0`, and through other locks. In others, tasks that share a client have a lock each.

use std::time::Duration;

use crate::hosts::Host;
use crate::programs::{Language, Lock, Program, Sharing, TABLES, hosted};
use crate::report::{Report, Row};
use crate::rounds::{Plan, Rounds, Sample, percentiles, times};
use crate::stats::Spread;

/// The most tries of one turn.
const TRIES: usize = 3;

/// A lock, its server, and the programs that stayed after the last turn, so that they are warmed up.
pub(crate) type Contestant<'h> = (&'static Lock, &'h Host, Vec<Program>);

/// Returns the handovers per second, and the times of single handovers, in µs: from a release, `ms` after the grant, to the next grant, if
/// another client gets it. Returns `None` if the turn failed, as it may on a busy machine.
pub(crate) fn contest(
    language: &Language,
    (lock, host, stayed): &mut Contestant,
    seconds: u32,
    kept: u32,
) -> Option<Sample> {
    let Language { run, mode, processes, .. } = language;
    let start = || Program::start(run, mode, host, lock, &format!("{seconds} {kept}"));
    let mut programs = Program::ready(stayed, *processes, start);
    let cpu_before = host.cpu_ns();
    programs.iter_mut().for_each(|program| program.tell("go"));
    // Each grant is stored with its client: a process, or one of several clients in a process.
    let mut grants: Vec<([u64; 2], (usize, String))> = Vec::new();
    for (number, program) in programs.into_iter().enumerate() {
        let (said, program) = program.finish();
        stayed.extend(program);
        grants.extend(said.iter().map(|line| {
            let mut words = line.split(' ');
            let times = [(); 2].map(|()| words.next().and_then(|time| time.parse().ok()).expect("a time"));
            (times, (number, words.collect()))
        }));
    }
    let cpu = host.cpu_ns() - cpu_before;
    grants.sort_unstable();
    let changes = grants.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    let times: Vec<f64> = changes.map(|pair| (pair[1].0[0] as f64 - pair[0].0[1] as f64) / 1e3).collect();
    if times.is_empty() {
        return None;
    }
    let wall = Duration::from_nanos(grants[grants.len() - 1].0[0] - grants[0].0[0]);
    Some(Sample { times: times.clone(), ..Sample::rate(times.len() as f64, wall, cpu) })
}

fn contestants<'h>(hosted: &'h [(&'static Lock, Host)]) -> Vec<(String, Contestant<'h>)> {
    hosted.iter().map(|(lock, host)| (lock.name.clone(), (*lock, host, Vec::new()))).collect()
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let (turns, seconds) = (plan.pick(5, 2), plan.pick(3, 2));
    for language in &TABLES.languages {
        let Language { run, name, ours, peers, .. } = language;
        let locks = ours.iter().chain(peers).map(String::as_str);
        let hosted = hosted(plan, report, run, &format!("clients, {name}"), locks);
        if hosted.is_empty() {
            continue;
        }
        let locks: Vec<&Lock> = hosted.iter().map(|(lock, _)| *lock).collect();
        let start = || contestants(&hosted);
        let turn = |report: &mut Report, contestant: &mut Contestant, kept| {
            let who = format!("{name}, {}", contestant.0.name);
            let mut samples = (0..TRIES).map(|_| contest(language, contestant, seconds, kept));
            samples.next().flatten().unwrap_or_else(|| {
                report.warn(&format!("{who}: a turn without a handover was repeated"));
                samples.flatten().next().unwrap_or_else(|| panic!("{who}: the lock is not handed over"))
            })
        };
        let what = format!("handovers, 8 clients, {name}");
        let rounds =
            Rounds::play(&what, "per second", 1, 1..=turns, start, |contestant| turn(report, contestant, 0));
        for kept in [1, 10] {
            let work = format!("from release to the next begin, {kept} ms of work inside, {name}");
            let start = || contestants(&hosted[..2]);
            let middle = |sample: Sample| Sample {
                value: percentiles(&times(std::slice::from_ref(&sample)))[0],
                ..sample
            };
            let turn = |contestant: &mut Contestant| middle(turn(report, contestant, kept));
            let rounds = Rounds::play(&work, "µs", 1, 1..=turns, start, turn);
            if let [(_, ours), (raw, theirs)] = &rounds.all[..] {
                let more = ours.iter().zip(theirs).map(|(ours, theirs)| ours.value - theirs.value);
                let row = Row::new(format!("{work}: more than raw"), raw, "µs", Spread::of(more));
                report.rows.push(row.at_most(language.more_us));
            }
            let most = |samples: &[Sample]| format!("p99 {:.0} µs", percentiles(&times(samples))[1]);
            report.figures.extend(rounds.figures(most));
        }
        let (ours, peers) = locks.split_at(ours.len());
        let [package, raw @ ..] = ours else { panic!("{name} has no package") };
        let work = format!("handovers/s, 8 clients, {name} with our package");
        let row = |other: &Lock| rounds.row(&work, &package.name, &other.name);
        report.rows.extend(raw.iter().chain(peers).filter_map(|other| row(other)));
        report.figures.extend(rounds.figures(|samples| {
            let [half, most, max] = percentiles(&times(samples));
            format!("from release to grant p50 {half:.0}, p99 {most:.0}, max {max:.0} µs")
        }));
    }
    sharing(plan, report);
}

/// Measures tasks of one program, each with a lock of its own.
fn sharing(plan: &Plan, report: &mut Report) {
    let seconds: u64 = plan.pick(3, 2);
    for Sharing { run, name, locks } in &TABLES.sharing {
        let who = format!("100 tasks on locks of their own in a {name} program");
        let hosted = hosted(plan, report, run, &who, locks.iter().map(String::as_str));
        let [(ours, _), peers @ ..] = &hosted[..] else { continue };
        let turn = |(lock, host, stayed): &mut Contestant| {
            let start = || Program::start(run, "own", host, lock, &format!("{seconds} 0"));
            let mut program = Program::ready(stayed, 1, start).remove(0);
            let cpu = host.cpu_ns();
            program.tell("go");
            let (said, program) = program.finish();
            stayed.extend(program);
            Sample::rate(said.len() as f64, Duration::from_secs(seconds), host.cpu_ns() - cpu)
        };
        let (start, rounds) = (|| contestants(&hosted), 1..=plan.pick(3, 1));
        let rounds = Rounds::play(&format!("grants, {who}"), "per second", 1, rounds, start, turn);
        let row = |peer: &Lock| rounds.row(&format!("grants/s, {who}"), &ours.name, &peer.name);
        report.rows.extend(peers.iter().filter_map(|(peer, _)| row(peer)));
        report.figures.extend(rounds.figures(|_| String::new()));
    }
}
