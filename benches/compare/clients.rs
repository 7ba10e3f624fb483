//! Real client programs, in their own languages, whose sources are in benches/clients. Some want one lock: through
//! `LOCK.ACQUIRE ... BLOCK 0`, and through other locks as their users take them. Others don't all want one lock alone: readers with a
//! writer among them, permits, several locks at once, tasks that share a client. Counted are handovers or grants, and where clients
//! wait for each other, how long, and how evenly they are served.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::hosts::Host;
use crate::programs::{Language, Lock, Mix, Program, Served, TABLES, hosted};
use crate::report::{Figure, Report, Row};
use crate::rounds::{Plan, Rounds, Sample, percentiles, ratio, spread, times};
use crate::stats::Spread;

/// How often a turn is repeated at most.
const TRIES: usize = 3;

/// A lock, what hosts it, and the programs that stayed after the last turn: these are warm.
pub(crate) type Contestant<'h> = (&'static Lock, &'h Host, Vec<Program>);

/// Handovers per second, and from one client's release, so many ms after its grant, to the grant of the next, where that is another, in
/// µs. None: on a machine that has other things to do, a turn may come to nothing.
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
    // Each with the client that it was for: a process, or one of several in a process.
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
    mixes(plan, report, "clients");
}

/// What a stretch came to: grants per second, and the waits of the writer, where there is one, or of all, in ms. The shares are the
/// writer's grants per second and the longest wait of a reader; else the grants of the client that got the fewest, in % of an even
/// share.
fn contest_of(mix: &Mix, (lock, host, stayed): &mut Contestant, seconds: u32) -> Sample {
    let start = || Program::start(&mix.run, &mix.mode, host, lock, &seconds.to_string());
    let mut program = Program::ready(stayed, 1, start).remove(0);
    let cpu = host.cpu_ns();
    program.tell("go");
    let (said, program) = program.finish();
    stayed.extend(program);
    let cpu = host.cpu_ns() - cpu;
    let mut said: Vec<[u64; 3]> = said.iter().map(|line| grant(line)).collect();
    said.sort_unstable();
    let first = said.first().expect("a grant")[0];
    let (mut writer_ms, mut others_ms) = (Vec::new(), Vec::new());
    let mut grants: BTreeMap<u64, f64> = BTreeMap::new();
    for &[time, client, waited] in &said {
        let by_writer = mix.served == Served::Writer(client);
        (if by_writer { &mut writer_ms } else { &mut others_ms }).push(waited as f64 / 1e6);
        // Who waits when the time is over is given some more to get its grant, which is none of this time.
        let in_time = time - first < u64::from(seconds) * 1_000_000_000;
        *grants.entry(client).or_default() += f64::from(u8::from(in_time));
    }
    let (all, least) = (grants.values().sum::<f64>(), grants.values().copied().fold(f64::MAX, f64::min));
    let (times, shares) = match mix.served {
        Served::Writer(client) => {
            let writes = grants.get(&client).copied().unwrap_or_default() / f64::from(seconds);
            (writer_ms, [writes, longest(&others_ms)])
        }
        _ => (others_ms, [100.0 * least * grants.len() as f64 / all, 0.0]),
    };
    let cpu_us = cpu / 1e3 / said.len() as f64;
    Sample { cpu_us, times, shares, ..Sample::rate(all, Duration::from_secs(seconds.into()), 0.0) }
}

/// A line of a program: when a grant came, whose it was, and how long it was waited for.
fn grant(line: &str) -> [u64; 3] {
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("no grant: {line}"))
}

fn longest(waits: &[f64]) -> f64 {
    waits.iter().copied().fold(0.0, f64::max)
}

/// Ours beside another.
fn rows(rounds: &Rounds, Mix { who, served, .. }: &Mix, ours: &str, other: &str) -> Option<[Row; 2]> {
    let both = (rounds.of(ours)?, rounds.of(other)?);
    let row = |work: String, of: fn(&Sample) -> f64| Row::ratio(work, other, ratio(both.0, both.1, of));
    let counted = rounds.row(&format!("grants/s, {who}"), ours, other)?;
    let more = match served {
        Served::Writer(_) => row(format!("grants/s of the writer, {who}"), |sample| sample.shares[0]),
        _ => row(format!("longest wait of a client, {who}"), |sample| longest(&sample.times)),
    };
    Some([counted, more])
}

/// What there is to tell of one's waits, beside its grants.
fn figures(Mix { who, served, .. }: &Mix, name: &str, samples: &[Sample]) -> Vec<Figure> {
    if *served == Served::Alone {
        return Vec::new();
    }
    let (whose, more) = match served {
        Served::Writer(_) => {
            let readers = spread(samples, |sample| sample.shares[1]).max;
            ("the writer", format!("; a reader's longest {}", Spread::one(readers)))
        }
        _ => ("a client", String::new()),
    };
    let [half, most, _] = percentiles(&times(samples)).map(Spread::one);
    let value = spread(samples, |sample| longest(&sample.times));
    let waits = Figure::new(format!("longest wait of {whose}, {who}"), name, "ms", value);
    let mut figures = vec![waits.remark(format!("p50 {half}, p99 {most}{more} ms"))];
    if !matches!(served, Served::Writer(_)) {
        let work = format!("grants of the client with the fewest, {who}");
        let share = spread(samples, |sample| sample.shares[0]);
        figures.push(Figure::new(work, name, "% of an even share", share));
    }
    figures
}

/// Measures those of a part.
pub(crate) fn mixes(plan: &Plan, report: &mut Report, part: &str) {
    let seconds = plan.pick(3, 2);
    for mix in TABLES.mixes.iter().filter(|mix| mix.part == part) {
        let Mix { run, who, served, rounds, locks, .. } = mix;
        let [full, quick] = rounds.unwrap_or([5, 2]);
        let hosted = hosted(plan, report, run, who, locks.iter().map(String::as_str));
        let [(ours, _), peers @ ..] = &hosted[..] else { continue };
        let work = format!("grants, {who}");
        let turn = |contestant: &mut Contestant| contest_of(mix, contestant, seconds);
        let start = || contestants(&hosted);
        let rounds = Rounds::play(&work, "per second", 1, 1..=plan.pick(full, quick), start, turn);
        let rows = peers.iter().filter_map(|(peer, _)| rows(&rounds, mix, &ours.name, &peer.name));
        report.rows.extend(rows.flat_map(|[counted, more]| {
            [Some(counted), (*served != Served::Alone).then_some(more)].into_iter().flatten()
        }));
        let remark = |samples: &[Sample]| match served {
            Served::Writer(_) => {
                let readers = spread(samples, |sample| sample.value - sample.shares[0]).median;
                let writes = spread(samples, |sample| sample.shares[0]).median;
                format!("readers {}, writer {}", Spread::one(readers), Spread::one(writes))
            }
            _ => String::new(),
        };
        for (figure, (name, samples)) in rounds.figures(remark).into_iter().zip(&rounds.all) {
            report.figures.push(figure);
            report.figures.extend(figures(mix, name, samples));
        }
    }
}
