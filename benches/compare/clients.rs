//! Real client programs, in their own languages, that want one lock: through `LOCK.ACQUIRE ... BLOCK 0`, and through other
//! locks as their users take them. The programs are in benches/clients.

use crate::hosts::Host;
use crate::install::install;
use crate::mixes;
use crate::pictures::{Bar, Group, bars};
use crate::plan::{Plan, order, progress};
use crate::programs::{EIGHT_JVMS, LANGUAGES, Language, Lock, PACKAGES_ONLY, Program};
use crate::report::{Figure, Report, Row};
use crate::stats::{Spread, percentile, sorted};
use crate::tasks;

/// How often a turn is repeated at most.
const TRIES: usize = 3;

/// What a stretch of contest came to.
struct Sample {
    handovers: f64,
    cpu_us: f64,
    /// From one client's grant, which it releases at once, to the grant of the next, where that is another; in µs.
    gaps_us: Vec<f64>,
}

/// A lock with what hosts it, and what was measured.
struct Contestant<'a> {
    lock: &'a Lock,
    host: Host,
    samples: Vec<Sample>,
}

impl Contestant<'_> {
    /// Whether the lock was handed over at all: on a machine that has other things to do, a turn may come to nothing.
    fn contest(&mut self, language: &Language, seconds: u32) -> bool {
        let (address, seconds) = (self.host.address(), seconds.to_string());
        let (mode, processes) = language.contend;
        let start = |_| Program::start(language.run, mode, &address, self.lock.who, &seconds);
        let mut programs: Vec<Program> = (0..processes).map(start).collect();
        programs.iter_mut().for_each(Program::wait_until_ready);
        let cpu_before = self.host.cpu_ns();
        programs.iter_mut().for_each(|program| program.tell("go"));
        // Each with the client that it was for: a process, or one of several in a process.
        let mut grants: Vec<(u64, (usize, String))> = Vec::new();
        for (number, program) in programs.into_iter().enumerate() {
            grants.extend(program.finish().iter().map(|line| {
                let (time, client) = line.split_once(' ').unwrap_or((line, ""));
                (time.parse().expect("a time"), (number, client.into()))
            }));
        }
        let cpu = self.host.cpu_ns() - cpu_before;
        grants.sort_unstable();
        if grants.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            return false;
        }
        let wall = (grants[grants.len() - 1].0 - grants[0].0) as f64 / 1e9;
        let changes = grants.windows(2).filter(|pair| pair[0].1 != pair[1].1);
        let gaps_us: Vec<f64> = changes.map(|pair| (pair[1].0 - pair[0].0) as f64 / 1e3).collect();
        let handovers = gaps_us.len() as f64;
        self.samples.push(Sample { handovers: handovers / wall, cpu_us: cpu / 1e3 / handovers, gaps_us });
        true
    }

    fn handovers(&self) -> Spread {
        Spread::of(self.samples.iter().map(|sample| sample.handovers))
    }

    fn beside(&self, other: &Self, language: &Language) -> Row {
        let pairs = || self.samples.iter().zip(&other.samples);
        Row {
            work: work(language, self.lock.who),
            beside: other.lock.name.into(),
            bound: None,
            unit: "x".into(),
            value: Spread::of(pairs().map(|(ours, theirs)| ours.handovers / theirs.handovers)),
            cpu: Some(Spread::of(pairs().map(|(ours, theirs)| theirs.cpu_us / ours.cpu_us))),
        }
    }

    fn figure(&self, language: &Language) -> Figure {
        let gaps = sorted(self.samples.iter().flat_map(|sample| sample.gaps_us.iter().copied()));
        Figure {
            work: format!("handovers, 8 clients, {}", language.name),
            who: self.lock.name.into(),
            unit: "per second".into(),
            value: self.handovers(),
            cpu_us: Some(Spread::of(self.samples.iter().map(|sample| sample.cpu_us))),
            remark: format!(
                "from grant to grant p50 {:.0}, p99 {:.0}, max {:.0} µs",
                percentile(&gaps, 50.0),
                percentile(&gaps, 99.0),
                percentile(&gaps, 100.0),
            ),
        }
    }
}

/// What is compared, as rows name it.
fn work(language: &Language, who: &str) -> String {
    let with = match (who, language.client) {
        ("package", _) => "our package",
        ("session", _) => "raw commands by Jedis and SESSION",
        ("redislock", "Lettuce") => "raw commands by Jedis",
        _ => "raw commands",
    };
    format!("handovers/s, 8 clients, {} with {with}", language.name)
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let (rounds, seconds) = (plan.pick(5, 2), plan.pick(3, 2));
    let mut groups = Vec::new();
    for language in LANGUAGES.iter().chain([&EIGHT_JVMS]).chain(&PACKAGES_ONLY) {
        let name = language.name;
        if let Err(reason) = install(language.run) {
            report.note(format!("clients, {name}: left out, {reason}"));
            continue;
        }
        let mut contestants = Vec::new();
        for lock in language.ours.iter().chain(language.peers) {
            match Host::start(plan, lock.host) {
                Ok(host) => contestants.push(Contestant { lock, host, samples: Vec::new() }),
                Err(reason) => report.note(format!("{}: left out, {reason}", lock.name)),
            }
        }
        for round in 1..=rounds {
            for place in order(contestants.len(), round) {
                let contestant = &mut contestants[place];
                let who = format!("{name}, {}", contestant.lock.name);
                let tried = (0..TRIES).take_while(|_| !contestant.contest(language, seconds)).count();
                assert!(tried < TRIES, "{who}: the lock is not handed over");
                if tried > 0 {
                    report.warn(&format!("{who}: a turn without a handover was repeated"));
                }
            }
            progress(&format!("  clients, {name}: {round}/{rounds}"));
        }
        let (ours, peers) = contestants.split_at(language.ours.len());
        let [package, raw @ ..] = ours else { panic!("{name} has no package") };
        report.rows(
            raw.iter().filter(|raw| raw.lock.who != "session").map(|raw| package.beside(raw, language)),
        );
        report.rows(ours.iter().flat_map(|ours| peers.iter().map(|peer| ours.beside(peer, language))));
        for contestant in &contestants {
            report.figure(contestant.figure(language));
        }
        let bar = |contestant: &Contestant<'_>| Bar {
            name: contestant.lock.name.into(),
            value: contestant.handovers().median,
        };
        groups.push(Group { title: name.into(), bars: contestants.iter().map(bar).collect() });
    }
    if !groups.is_empty() {
        bars(plan, "clients", "Handovers per second, 8 clients on one lock", &groups);
    }
    tasks::with_own_locks(plan, report);
    mixes::on_one_lock(plan, report);
}
