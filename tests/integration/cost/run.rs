//! Runs a program on a server of its own, and looks at what it cost: the module's work, and another client's longest `PING`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use super::program::{Program, Step, spell};
use crate::support::{Client, PATIENCE, Server, Setup, wait_for};

/// How much of a second a server that has nothing to do may need, in hundredths.
const IDLE: u64 = 5;

/// So many words are sent together: the server does all that has come of a connection before it looks at the next one.
const TOGETHER: usize = 300;

/// What a program has cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Cost {
    /// The most that a turn of the module has done, and the step in which that came about.
    pub(super) work: u64,
    pub(super) by: String,
    /// The longest `PING`, and the longest before the program, in ms.
    pub(super) ping: f64,
    pub(super) quiet: f64,
    /// The step in which the longest came.
    pub(super) ping_by: String,
    /// What may not be exceeded.
    pub(super) bound: u64,
}

impl Cost {
    /// By how much the longest `PING` was longer than the longest before, in ms.
    pub(super) fn more(&self) -> f64 {
        self.ping - self.quiet
    }
}

pub(super) struct Stage {
    server: Server,
    pub(super) client: Client,
    connections: BTreeMap<String, Connection>,
    pings: Pings,
    shows: bool,
    pub(super) cost: Cost,
}

impl Stage {
    /// With the bounds that the module has by default.
    pub(super) fn new() -> Self {
        let server = Setup::new().shipped().set("maxclients", "10000").start();
        let client = server.client();
        let pings = Pings::start(server.port());
        let cost = Cost::default();
        Self { server, client, connections: BTreeMap::new(), pings, shows: false, cost }
    }

    /// One that does not wait for the others.
    pub(super) fn other_client(&self) -> Client {
        self.server.client()
    }

    /// Takes the longest `PING` while nothing else happens.
    pub(super) fn look_at_quiet(&mut self, length: Duration) {
        self.pings.take();
        sleep(length);
        self.cost.quiet = self.pings.take();
    }

    pub(super) fn run(&mut self, program: &Program) {
        for step in &program.0 {
            self.take(step);
            self.note(step);
        }
        // What is left to be done comes now.
        self.take(&Step::Pass(20));
        self.note(&Step::Pass(20));
        self.cost.bound = self.bound();
    }

    /// Runs a program from its text, and prints what each step has cost.
    pub(super) fn run_text(&mut self, text: &str) {
        self.shows = true;
        self.run(&Program::parse(text));
    }

    #[track_caller]
    pub(super) fn judge(&self) {
        let Cost { work, bound, by, .. } = &self.cost;
        assert!(work <= bound, "{work} units of work, which may be {bound}: {by}");
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Send { times, by, command } if by.contains('$') => {
                for number in 0..*times {
                    self.send(&spell(by, number), &[spell(command, number)]);
                }
            }
            Step::Send { times, by, command } => {
                let words = spell(command, 0).split(' ').count();
                let numbers: Vec<usize> = (0..*times).collect();
                for some in numbers.chunks((TOGETHER / words).max(1)) {
                    let lines: Vec<String> = some.iter().map(|number| spell(command, *number)).collect();
                    self.send(by, &lines);
                }
            }
            Step::Close(by) => match by.strip_suffix('$') {
                Some(prefix) => self.connections.retain(|name, _| !name.starts_with(prefix)),
                None => _ = self.connections.remove(by),
            },
            Step::Pass(ms) => sleep(Duration::from_millis(*ms)),
            Step::Until { field, value } => {
                let client = &mut self.client;
                wait_for(&step.to_string(), || client.info("everything", field) == *value);
            }
        }
    }

    /// Sends these on a connection, and waits for the answers, unless one may block it. A connection that the server has closed is
    /// opened again next time.
    fn send(&mut self, by: &str, lines: &[String]) {
        let by = by.trim();
        let port = self.server.port();
        let connection = self.connections.entry(by.into()).or_insert_with(|| Connection::open(port));
        if connection.send(lines).is_none() {
            self.connections.remove(by);
        }
    }

    fn note(&mut self, step: &Step) {
        let work: u64 = self.client.info("lock", "lock_most_work").parse().unwrap();
        let ping = self.pings.take();
        if self.shows {
            println!("work {work}, PING {ping:.1} ms: {step}");
        }
        if work > self.cost.work {
            (self.cost.work, self.cost.by) = (work, step.to_string());
        }
        if ping > self.cost.ping {
            (self.cost.ping, self.cost.ping_by) = (ping, step.to_string());
        }
    }

    /// Waits until the server does nothing for a second: nothing is due for ever.
    #[track_caller]
    pub(super) fn wait_for_idle(&mut self) {
        self.pings.stop();
        let pid = self.server.pid();
        wait_for("an idle server", || {
            let before = ticks(pid);
            sleep(Duration::from_secs(1));
            ticks(pid) - before <= IDLE
        });
    }

    fn bound(&mut self) -> u64 {
        let setting: Vec<String> = self.client.ask("CONFIG GET lock.max-keys");
        super::bound(setting[1].parse().unwrap())
    }
}

/// How much processor time a process has used, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Behind the program's name: utime and stime are the fields 14 and 15.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

/// A connection that does not care for what it is answered.
struct Connection {
    stream: TcpStream,
    /// It may be blocked, or be in a transaction: then nothing is to be waited for.
    blocked: bool,
    queues: bool,
    sent: u64,
}

impl Connection {
    fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, blocked: false, queues: false, sent: 0 }
    }

    /// None where the connection is gone.
    fn send(&mut self, lines: &[String]) -> Option<()> {
        for line in lines {
            self.blocked |= line.contains("BLOCK ") && !line.contains("NOTIFY ") || line.contains("SYNC ");
            self.queues |= line.starts_with("MULTI");
            self.queues &= !line.starts_with("EXEC");
        }
        let waits = self.blocked || self.queues;
        let mut text: String = lines.iter().flat_map(|line| [line.trim_end(), "\r\n"]).collect();
        self.sent += 1;
        let marker = format!("marker{}-", self.sent);
        if !waits {
            text += &format!("PING {marker}\r\n");
        }
        self.stream.write_all(text.as_bytes()).ok()?;
        if waits { Some(()) } else { self.skip_to(&marker) }
    }

    fn skip_to(&mut self, marker: &str) -> Option<()> {
        let (mut tail, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => tail.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("no answer within {PATIENCE:?}")
                }
                Err(_) => return None,
            }
            if tail.windows(marker.len()).any(|part| part == marker.as_bytes()) {
                return Some(());
            }
            tail.drain(..tail.len().saturating_sub(marker.len()));
        }
    }
}

/// A client that sends `PING` again and again.
struct Pings {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// In ns, since it was looked at last.
    longest: AtomicU64,
    over: AtomicBool,
}

impl Pings {
    fn start(port: u16) -> Self {
        const PAUSE: Duration = Duration::from_micros(300);
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        let thread = thread::spawn(move || {
            let mut answer = [0; 7];
            while !its.over.load(Ordering::Relaxed) {
                let began = Instant::now();
                if stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut answer)).is_err() {
                    return;
                }
                its.longest.fetch_max(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
                sleep(PAUSE);
            }
        });
        Self { shared, thread: Some(thread) }
    }

    /// The longest since the last time, in ms.
    fn take(&self) -> f64 {
        self.shared.longest.swap(0, Ordering::Relaxed) as f64 / 1e6
    }

    fn stop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Pings {
    fn drop(&mut self) {
        self.stop();
    }
}
