//! Real client programs, in their own languages, that want one lock: through `LOCK.ACQUIRE ... BLOCK 0`, and through a
//! lock library as its users take it. The programs are in benches/clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use crate::plan::{Plan, progress};
use crate::report::{Figure, Report, Row};
use crate::server::{Server, Setup};
use crate::stats::{Spread, percentile, sorted};

const CLIENTS: usize = 8;

/// A client of a language, and a lock library for it.
struct Language {
    /// What installs what the program needs, and runs it.
    run: &'static str,
    client: &'static str,
    library: &'static str,
}

const LANGUAGES: [Language; 2] = [
    Language {
        run: "benches/clients/python/run",
        client: "redis-py",
        library: "redis-py's Lock: SET NX PX every 100 ms",
    },
    Language {
        run: "benches/clients/node/run",
        client: "ioredis",
        library: "redis-semaphore's Mutex: SET NX PX every 10 ms",
    },
];

/// What a stretch of contest came to.
struct Sample {
    handovers: f64,
    cpu_us: f64,
    /// From one client's grant, which it releases at once, to the grant of the next, where that is another; in µs.
    gaps_us: Vec<f64>,
}

impl Language {
    /// Installs what the program needs; the reason where that can't be had.
    fn install(&self) -> Result<(), String> {
        let output = Command::new(self.run).output().unwrap_or_else(|error| panic!("{}: {error}", self.run));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.code() {
            Some(0) => Ok(()),
            Some(77) => Err(said.lines().last().unwrap_or_default().into()),
            _ => panic!("{}: {said}{}", self.run, String::from_utf8_lossy(&output.stderr)),
        }
    }

    fn contest(&self, who: &str, server: &mut Server, seconds: u32) -> Sample {
        let mut clients: Vec<Child> = (0..CLIENTS)
            .map(|_| {
                let mut command = Command::new(self.run);
                command.args([&server.port.to_string(), who, &seconds.to_string()]);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a client")
            })
            .collect();
        let mut outputs: Vec<_> = clients
            .iter_mut()
            .map(|client| BufReader::new(client.stdout.take().expect("its output")))
            .collect();
        for output in &mut outputs {
            let mut line = String::new();
            output.read_line(&mut line).expect("a line");
            assert_eq!(line, "ready\n", "{}", self.run);
        }
        let cpu_before = server.cpu_ns();
        for client in &mut clients {
            client.stdin.as_mut().expect("its input").write_all(b"go\n").expect("a line that goes out");
        }
        let mut grants: Vec<(u64, usize)> = Vec::new();
        for (number, output) in outputs.iter_mut().enumerate() {
            let mut text = String::new();
            output.read_to_string(&mut text).expect("the grants");
            grants.extend(text.lines().map(|line| (line.parse().expect("a time"), number)));
        }
        let cpu = server.cpu_ns() - cpu_before;
        for mut client in clients {
            assert!(client.wait().expect("the client's end").success(), "{} failed", self.run);
        }
        grants.sort_unstable();
        let wall = (grants[grants.len() - 1].0 - grants[0].0) as f64 / 1e9;
        let changes = grants.windows(2).filter(|pair| pair[0].1 != pair[1].1);
        let gaps_us: Vec<f64> = changes.map(|pair| (pair[1].0 - pair[0].0) as f64 / 1e3).collect();
        let handovers = gaps_us.len() as f64;
        Sample { handovers: handovers / wall, cpu_us: cpu / 1e3 / handovers, gaps_us }
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let (rounds, seconds) = (plan.pick(5, 2), plan.pick(3, 2));
    for language in &LANGUAGES {
        if let Err(reason) = language.install() {
            report.note(format!("clients, {}: left out, {reason}", language.client));
            continue;
        }
        let (mut plain, mut module) = (Server::start(Setup::PLAIN), Server::start(Setup::MODULE));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            ours.push(language.contest("redislock", &mut module, seconds));
            theirs.push(language.contest("library", &mut plain, seconds));
            progress(&format!("  clients, {}: {round}/{rounds}", language.client));
        }
        let pairs = || ours.iter().zip(&theirs);
        report.row(Row {
            work: format!("handovers/s, 8 clients with {}", language.client),
            beside: language.library.into(),
            bound: None,
            unit: "x".into(),
            value: Spread::of(pairs().map(|(ours, theirs)| ours.handovers / theirs.handovers)),
            cpu: Some(Spread::of(pairs().map(|(ours, theirs)| theirs.cpu_us / ours.cpu_us))),
        });
        for (who, samples) in [("LOCK.ACQUIRE ... BLOCK 0", &ours), (language.library, &theirs)] {
            let gaps = sorted(samples.iter().flat_map(|sample| sample.gaps_us.iter().copied()));
            report.figure(Figure {
                work: format!("handovers, 8 clients with {}", language.client),
                who: who.into(),
                unit: "per second".into(),
                value: Spread::of(samples.iter().map(|sample| sample.handovers)),
                cpu_us: Some(Spread::of(samples.iter().map(|sample| sample.cpu_us))),
                remark: format!(
                    "from grant to grant p50 {:.0}, p99 {:.0}, max {:.0} µs",
                    percentile(&gaps, 50.0),
                    percentile(&gaps, 99.0),
                    percentile(&gaps, 100.0),
                ),
            });
        }
    }
}
