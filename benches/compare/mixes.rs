//! Real client programs on one lock that several may hold at once: readers with a writer among them, and permits. Through
//! `LOCK.ACQUIRE ... SHARED` and `LIMIT`, and through what stands beside those.

use crate::hosts::{Host, Kind};
use crate::plan::{Plan, order, progress};
use crate::programs::{LANGUAGES, Language, Lock, Program, install};
use crate::report::{Figure, Report, Row};
use crate::stats::{Spread, percentile, sorted};

/// Who wants what of a lock, and by which locks.
struct Mix {
    client: &'static str,
    /// Its name for the program.
    mode: &'static str,
    who: &'static str,
    /// Which of the clients writes.
    writer: Option<usize>,
    ours: Lock,
    peer: Lock,
}

const READERS: &str = "7 readers and 1 writer";
const PERMITS: &str = "16 clients and 10 permits";
const SHARED: Lock =
    Lock { who: "redislock", name: "LOCK.ACQUIRE ... BLOCK 0, readers with SHARED", host: Kind::Module };

const MIXES: [Mix; 3] = [
    Mix {
        client: "Jedis",
        mode: "readers",
        who: READERS,
        writer: Some(7),
        ours: SHARED,
        peer: Lock { who: "readwrite", name: "Redisson's RReadWriteLock", host: Kind::Plain },
    },
    Mix {
        client: "Jedis",
        mode: "permits",
        who: PERMITS,
        writer: None,
        ours: Lock { who: "redislock", name: "LOCK.ACQUIRE ... BLOCK 0 LIMIT 10", host: Kind::Module },
        peer: Lock { who: "semaphore", name: "Redisson's RPermitExpirableSemaphore", host: Kind::Plain },
    },
    Mix {
        client: "go-redis",
        mode: "readers",
        who: READERS,
        writer: Some(7),
        ours: SHARED,
        peer: Lock {
            who: "postgres",
            name: "PostgreSQL's pg_advisory_lock, readers with pg_advisory_lock_shared",
            host: Kind::Postgres,
        },
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
}

/// A lock with what hosts it, and what was measured.
struct Contestant<'a> {
    lock: &'a Lock,
    host: Host,
    samples: Vec<Sample>,
}

impl Contestant<'_> {
    fn contest(&mut self, language: &Language, mix: &Mix, seconds: u32) {
        let seconds = seconds.to_string();
        let mut program =
            Program::start(language.run, mix.mode, &self.host.address(), self.lock.who, &seconds);
        program.wait_until_ready();
        let cpu = self.host.cpu_ns();
        program.tell("go");
        let said = program.finish();
        let cpu = self.host.cpu_ns() - cpu;
        let (mut first, mut last) = (u64::MAX, 0);
        let (mut writer_ms, mut others_ms) = (Vec::new(), Vec::new());
        for line in &said {
            let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
            let [time, client, waited] = numbers[..] else { panic!("no grant: {line}") };
            (first, last) = (first.min(time), last.max(time));
            let by_writer = mix.writer == Some(client as usize);
            (if by_writer { &mut writer_ms } else { &mut others_ms }).push(waited as f64 / 1e6);
        }
        let (grants, wall) = (said.len() as f64, (last - first) as f64 / 1e9);
        self.samples.push(Sample {
            per_second: grants / wall,
            cpu_us: cpu / 1e3 / grants,
            writes_per_second: writer_ms.len() as f64 / wall,
            writer_ms,
            others_ms,
        });
    }

    fn spread(&self, of: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(of))
    }

    fn ratio(&self, other: &Self, of: fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().zip(&other.samples).map(|(ours, theirs)| of(ours) / of(theirs)))
    }

    fn rows(&self, other: &Self, mix: &Mix) -> Vec<Row> {
        let Mix { client, who, writer, .. } = mix;
        let row = |work: String, value, cpu| Row {
            work,
            beside: other.lock.name.into(),
            bound: None,
            unit: "x".into(),
            value,
            cpu,
        };
        let mut rows = vec![row(
            format!("grants/s, {who} with {client}"),
            self.ratio(other, |sample| sample.per_second),
            Some(other.ratio(self, |sample| sample.cpu_us)),
        )];
        if writer.is_some() {
            rows.push(row(
                format!("grants/s of the writer, {who} with {client}"),
                self.ratio(other, |sample| sample.writes_per_second),
                None,
            ));
        }
        rows
    }

    fn figures(&self, mix: &Mix) -> [Figure; 2] {
        let Mix { client, who, writer, .. } = mix;
        let by_writer = writer.is_some();
        let waits: fn(&Sample) -> &[f64] =
            if by_writer { |sample| &sample.writer_ms } else { |sample| &sample.others_ms };
        let all = sorted(self.samples.iter().flat_map(|sample| waits(sample).iter().copied()));
        let others = sorted(self.samples.iter().flat_map(|sample| sample.others_ms.iter().copied()));
        let whose = if by_writer { "the writer" } else { "a client" };
        let [mut grants, mut longest] = [String::new(), String::new()];
        if by_writer {
            let (all, writes) = (
                self.spread(|sample| sample.per_second - sample.writes_per_second).median,
                self.spread(|sample| sample.writes_per_second).median,
            );
            grants = format!("readers {}, writer {}", Spread::one(all), Spread::one(writes));
            longest = format!("; a reader's longest {}", Spread::one(percentile(&others, 100.0)));
        }
        [
            Figure {
                work: format!("grants, {who} with {client}"),
                who: self.lock.name.into(),
                unit: "per second".into(),
                value: self.spread(|sample| sample.per_second),
                cpu_us: Some(self.spread(|sample| sample.cpu_us)),
                remark: grants,
            },
            Figure {
                work: format!("longest wait of {whose}, {who} with {client}"),
                who: self.lock.name.into(),
                unit: "ms".into(),
                value: self.spread(|sample| waits(sample).iter().copied().fold(0.0, f64::max)),
                cpu_us: None,
                remark: format!(
                    "p50 {}, p99 {}{longest} ms",
                    Spread::one(percentile(&all, 50.0)),
                    Spread::one(percentile(&all, 99.0)),
                ),
            },
        ]
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let (rounds, seconds) = (plan.pick(5, 2), plan.pick(3, 2));
    for mix in &MIXES {
        let Mix { client, who, ours, peer, .. } = mix;
        let language =
            LANGUAGES.iter().find(|language| language.client == *client).expect("a client's language");
        if let Err(reason) = install(language.run) {
            report.note(format!("clients, {client}: left out, {reason}"));
            continue;
        }
        let mut contestants = Vec::new();
        for lock in [ours, peer] {
            match Host::start(plan, lock.host) {
                Ok(host) => contestants.push(Contestant { lock, host, samples: Vec::new() }),
                Err(reason) => report.note(format!("{}: left out, {reason}", lock.name)),
            }
        }
        for round in 1..=rounds {
            for place in order(contestants.len(), round) {
                contestants[place].contest(language, mix, seconds);
            }
            progress(&format!("  clients, {client}, {who}: {round}/{rounds}"));
        }
        if let [ours, peer] = &contestants[..] {
            report.rows(ours.rows(peer, mix));
        }
        for contestant in &contestants {
            contestant.figures(mix).into_iter().for_each(|figure| report.figure(figure));
        }
    }
}
