//! Real client programs that don't all want one lock alone: readers with a writer among them, permits, several locks at once,
//! tasks that share a client. Counted are grants, and where clients wait for each other, how long, and how evenly they are served.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::hosts::{Host, Kind};
use crate::install::install;
use crate::plan::{Plan, order, progress};
use crate::programs::{GO, JAVA, Lock, Program};
use crate::report::{Figure, Report, Row};
use crate::stats::{Spread, percentile, sorted};

/// Who wants what, and by which locks.
pub(crate) struct Mix {
    /// The program.
    pub(crate) run: &'static str,
    /// Its name for the program.
    pub(crate) mode: &'static str,
    pub(crate) who: Cow<'static, str>,
    pub(crate) served: Served,
    pub(crate) ours: Lock,
    pub(crate) peers: &'static [Lock],
}

/// What is to be looked at beside all grants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// Nothing: each client has locks of its own.
    Alone,
    /// How long any of the clients waits, and how evenly they are served.
    Alike,
    /// The same, but only grants to another client than the one before count.
    InTurn,
    /// What the client of that number gets, which writes.
    Writer(usize),
}

const SHARED: Lock =
    Lock { who: "redislock", name: "LOCK.ACQUIRE ... BLOCK 0, readers with SHARED", host: Kind::Module };

const ON_ONE_LOCK: [Mix; 3] = [
    Mix {
        run: JAVA,
        mode: "readers",
        who: Cow::Borrowed("7 readers and 1 writer with Jedis"),
        served: Served::Writer(7),
        ours: SHARED,
        peers: &[Lock { who: "readwrite", name: "Redisson's RReadWriteLock", host: Kind::Plain }],
    },
    Mix {
        run: JAVA,
        mode: "permits",
        who: Cow::Borrowed("16 clients and 10 permits with Jedis"),
        served: Served::Alike,
        ours: Lock { who: "redislock", name: "LOCK.ACQUIRE ... BLOCK 0 LIMIT 10", host: Kind::Module },
        peers: &[Lock { who: "semaphore", name: "Redisson's RPermitExpirableSemaphore", host: Kind::Plain }],
    },
    Mix {
        run: GO,
        mode: "readers",
        who: Cow::Borrowed("7 readers and 1 writer with go-redis"),
        served: Served::Writer(7),
        ours: SHARED,
        peers: &[Lock {
            who: "postgres",
            name: "PostgreSQL's pg_advisory_lock, readers with pg_advisory_lock_shared",
            host: Kind::Postgres,
        }],
    },
];

/// What a stretch came to.
struct Sample {
    per_second: f64,
    /// The server's processor time for one grant.
    cpu_us: f64,
    /// Of the writer alone, where there is one.
    writes_per_second: f64,
    /// How long each grant was waited for, in ms: by the writer, where there is one, and by the others.
    writer_ms: Vec<f64>,
    others_ms: Vec<f64>,
    /// The grants of the client that got the fewest, in % of an even share.
    least_share: f64,
}

/// A lock with what hosts it, and what was measured.
struct Contestant<'a> {
    lock: &'a Lock,
    host: Host,
    samples: Vec<Sample>,
}

impl Contestant<'_> {
    fn contest(&mut self, mix: &Mix, seconds: u32) {
        let address = self.host.address();
        let mut program = Program::start(mix.run, mix.mode, &address, self.lock.who, &seconds.to_string());
        program.wait_until_ready();
        let cpu = self.host.cpu_ns();
        program.tell("go");
        let said = program.finish();
        let cpu = self.host.cpu_ns() - cpu;
        let mut said: Vec<[u64; 3]> = said.iter().map(|line| grant(line)).collect();
        said.sort_unstable();
        if mix.served == Served::InTurn {
            said.dedup_by_key(|[_, client, _]| *client);
        }
        let first = said.first().expect("a grant")[0];
        let (mut writer_ms, mut others_ms) = (Vec::new(), Vec::new());
        let mut grants: BTreeMap<u64, f64> = BTreeMap::new();
        for &[time, client, waited] in &said {
            let by_writer = mix.served == Served::Writer(client as usize);
            (if by_writer { &mut writer_ms } else { &mut others_ms }).push(waited as f64 / 1e6);
            // Who waits when the time is over is given some more to get its grant, which is none of this time.
            let in_time = time - first < u64::from(seconds) * 1_000_000_000;
            *grants.entry(client).or_default() += f64::from(u8::from(in_time));
        }
        let (all, least) = (grants.values().sum::<f64>(), grants.values().copied().fold(f64::MAX, f64::min));
        let writes = match mix.served {
            Served::Writer(client) => grants.get(&(client as u64)).copied().unwrap_or_default(),
            Served::Alone | Served::Alike | Served::InTurn => 0.0,
        };
        self.samples.push(Sample {
            per_second: all / f64::from(seconds),
            cpu_us: cpu / 1e3 / said.len() as f64,
            writes_per_second: writes / f64::from(seconds),
            writer_ms,
            others_ms,
            least_share: 100.0 * least * grants.len() as f64 / all,
        });
    }

    fn spread(&self, of: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(of))
    }

    fn ratio(&self, other: &Self, of: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().zip(&other.samples).map(|(ours, theirs)| of(ours) / of(theirs)))
    }

    fn rows(&self, other: &Self, mix: &Mix) -> Vec<Row> {
        let Mix { who, served, .. } = mix;
        let row = |work: String, value, cpu| Row {
            work,
            beside: other.lock.name.into(),
            bound: None,
            unit: "x".into(),
            value,
            cpu,
        };
        let mut rows = vec![row(
            format!("{}/s, {who}", served.counted()),
            self.ratio(other, |sample| sample.per_second),
            Some(other.ratio(self, |sample| sample.cpu_us)),
        )];
        match served {
            Served::Alone => (),
            Served::Alike | Served::InTurn => rows.push(row(
                format!("longest wait of a client, {who}"),
                self.ratio(other, |sample| longest(&sample.others_ms)),
                None,
            )),
            Served::Writer(_) => rows.push(row(
                format!("grants/s of the writer, {who}"),
                self.ratio(other, |sample| sample.writes_per_second),
                None,
            )),
        }
        rows
    }

    fn figures(&self, mix: &Mix) -> Vec<Figure> {
        let Mix { who, served, .. } = mix;
        let mut remark = String::new();
        if let Served::Writer(_) = served {
            let readers = self.spread(|sample| sample.per_second - sample.writes_per_second).median;
            let writes = self.spread(|sample| sample.writes_per_second).median;
            remark = format!("readers {}, writer {}", Spread::one(readers), Spread::one(writes));
        }
        let figure = |work: String, unit: &'static str, value, remark| Figure {
            work: format!("{work}, {who}"),
            who: self.lock.name.into(),
            unit: unit.into(),
            value,
            cpu_us: None,
            remark,
        };
        let mut figures = vec![Figure {
            cpu_us: Some(self.spread(|sample| sample.cpu_us)),
            ..figure(served.counted().into(), "per second", self.spread(|sample| sample.per_second), remark)
        }];
        let waits = |whose: &str, of: fn(&Sample) -> &[f64], more: String| {
            let all = sorted(self.samples.iter().flat_map(|sample| of(sample).iter().copied()));
            let (half, most) = (Spread::one(percentile(&all, 50.0)), Spread::one(percentile(&all, 99.0)));
            let value = self.spread(|sample| longest(of(sample)));
            figure(
                format!("longest wait of {whose}"),
                "ms",
                value,
                format!("p50 {half}, p99 {most}{more} ms"),
            )
        };
        match served {
            Served::Alone => (),
            Served::Alike | Served::InTurn => {
                figures.push(waits("a client", |sample| &sample.others_ms, String::new()));
                figures.push(figure(
                    "grants of the client with the fewest".into(),
                    "% of an even share",
                    self.spread(|sample| sample.least_share),
                    String::new(),
                ));
            }
            Served::Writer(_) => {
                let readers = self.spread(|sample| longest(&sample.others_ms)).max;
                let readers = format!("; a reader's longest {}", Spread::one(readers));
                figures.push(waits("the writer", |sample| &sample.writer_ms, readers));
            }
        }
        figures
    }
}

/// A line of a program: when a grant came, whose it was, and how long it was waited for.
fn grant(line: &str) -> [u64; 3] {
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("no grant: {line}"))
}

fn longest(waits: &[f64]) -> f64 {
    waits.iter().copied().fold(0.0, f64::max)
}

impl Served {
    /// What is counted.
    fn counted(self) -> &'static str {
        if self == Self::InTurn { "handovers" } else { "grants" }
    }
}

/// Those on one lock that several may hold at once, by `LOCK.ACQUIRE ... SHARED` and `LIMIT`.
pub(crate) fn on_one_lock(plan: &Plan, report: &mut Report) {
    run(plan, report, &ON_ONE_LOCK, plan.pick(5, 2));
}

pub(crate) fn run(plan: &Plan, report: &mut Report, mixes: &[Mix], rounds: usize) {
    let seconds = plan.pick(3, 2);
    for mix in mixes {
        let Mix { run, who, ours, peers, .. } = mix;
        if let Err(reason) = install(run) {
            report.note(format!("{who}: left out, {reason}"));
            continue;
        }
        let mut contestants = Vec::new();
        for lock in [ours].into_iter().chain(*peers) {
            match Host::start(plan, lock.host) {
                Ok(host) => contestants.push(Contestant { lock, host, samples: Vec::new() }),
                Err(reason) => report.note(format!("{}: left out, {reason}", lock.name)),
            }
        }
        for round in 1..=rounds {
            for place in order(contestants.len(), round) {
                contestants[place].contest(mix, seconds);
            }
            progress(&format!("  {who}: {round}/{rounds}"));
        }
        if let [ours, peers @ ..] = &contestants[..] {
            report.rows(peers.iter().flat_map(|peer| ours.rows(peer, mix)));
        }
        for contestant in &contestants {
            contestant.figures(mix).into_iter().for_each(|figure| report.figure(figure));
        }
    }
}
