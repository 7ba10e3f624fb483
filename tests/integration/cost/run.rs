//! Runs a program on a server of its own, and checks how much work the module did in one turn.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use super::program::{Program, Step, spell};
use crate::support::{Client, PATIENCE, Server, Setup, wait_for};

/// How much processor time an idle server may use in a second, in hundredths of a second.
const IDLE: u64 = 5;

/// How many commands are sent at once: the server handles everything that has arrived on a connection before it turns to the next one.
const TOGETHER: usize = 300;

pub(super) struct Stage {
    server: Server,
    pub(super) client: Client,
    connections: BTreeMap<String, Connection>,
    /// The most work of one turn of the module, and the step in which this happened.
    work: u64,
    by: String,
}

impl Stage {
    /// The module has its default limits here.
    pub(super) fn new() -> Self {
        let server = Setup::new().shipped().set("maxclients", "10000").start();
        let client = server.client();
        Self { server, client, connections: BTreeMap::new(), work: 0, by: String::new() }
    }

    /// Returns a client that does not wait for the other connections.
    pub(super) fn other_client(&self) -> Client {
        self.server.client()
    }

    /// Runs a program, and prints how much work each step has caused.
    pub(super) fn run(&mut self, program: &str) {
        // The last step waits for work that is left over.
        for step in Program::parse(program).0.iter().chain([&Step::Pass(20)]) {
            self.take(step);
            self.note(step);
        }
    }

    /// Checks the bound. `unbounded` is additional work in a turn that the budget does not cover.
    #[track_caller]
    pub(super) fn judge(&mut self, unbounded: u64) {
        let setting: Vec<String> = self.client.ask("CONFIG GET lock.max-keys");
        let bound = super::bound(setting[1].parse().unwrap()) + unbounded;
        let Self { work, by, .. } = self;
        assert!(*work <= bound, "{work} units of work, which may be {bound}: {by}");
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

    /// Sends these commands on a connection, and waits for the answers, unless a command may block. A connection that the server has closed
    /// is opened again next time.
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
        println!("work {work}: {step}");
        if work > self.work {
            (self.work, self.by) = (work, step.to_string());
        }
    }

    /// Waits until the server is idle for a second, so nothing is due for ever.
    #[track_caller]
    pub(super) fn wait_for_idle(&mut self) {
        let pid = self.server.pid();
        wait_for("an idle server", || {
            let before = ticks(pid);
            sleep(Duration::from_secs(1));
            ticks(pid) - before <= IDLE
        });
    }
}

/// Returns the processor time of a process, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the program's name: utime and stime are the fields 14 and 15.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

/// A connection that ignores the replies.
struct Connection {
    stream: TcpStream,
    /// Whether the connection may be blocked, and whether it is in a transaction: then there are no replies to wait for.
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

    /// Returns `None` if the connection is closed.
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
