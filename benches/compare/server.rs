//! Servers of the benchmark's own: on free loopback ports, in folders that go with them, ended by process id.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tempfile::TempDir;

use crate::resp;

/// How long a server may take to start, or to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a server is to be like.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setup {
    pub(crate) module: bool,
    /// An append-only file, written to disk every second.
    pub(crate) aof: bool,
    /// Run by Callgrind, which counts its instructions.
    pub(crate) callgrind: bool,
    /// The port of the primary that it is a replica of.
    pub(crate) replica_of: Option<u16>,
}

impl Setup {
    pub(crate) const PLAIN: Self = Self { module: false, aof: false, callgrind: false, replica_of: None };
    pub(crate) const MODULE: Self = Self { module: true, ..Self::PLAIN };
}

/// A running server; ended when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    control: Control,
    /// Its files.
    folder: TempDir,
}

/// The servers' program.
pub(crate) fn program() -> String {
    env::var("REDISLOCK_SERVER").unwrap_or_else(|_| "redis-server".into())
}

/// The module: what `REDISLOCK_SO` names, or what was built beside this program.
fn module() -> PathBuf {
    let path = env::var_os("REDISLOCK_SO").map_or_else(
        || {
            let own = env::current_exe().expect("this program's path");
            own.with_file_name("../libredislock.so")
        },
        PathBuf::from,
    );
    path.canonicalize().unwrap_or_else(|_| panic!("{} is missing: run scripts/bench", path.display()))
}

/// What runs the servers' program: itself, or Callgrind.
fn command(setup: Setup, folder: &Path) -> Command {
    if !setup.callgrind {
        return Command::new(program());
    }
    let mut command = Command::new("valgrind");
    // The program may be a script that starts the server by its own loader.
    command.args(["--tool=callgrind", "--trace-children=yes"]);
    // Not counted is what differs from run to run: the chores, of which there are more the longer it takes, our own
    // questions, and the look-up of a command by its name, in a table that is hashed with another seed at each start.
    command.args(
        ["serverCron", "infoCommand", "lookupCommandLogic"].map(|name| format!("--toggle-collect={name}")),
    );
    command.arg("--collect-atstart=yes");
    command.arg(format!("--callgrind-out-file={}", folder.join("callgrind").display()));
    command.arg(program());
    command
}

impl Server {
    pub(crate) fn start(setup: Setup) -> Self {
        for _ in 0..20 {
            if let Some(server) = Self::try_start(setup) {
                return server;
            }
        }
        panic!("no port to be had");
    }

    /// None: another process was quicker to take the port.
    fn try_start(setup: Setup) -> Option<Self> {
        let folder =
            tempfile::Builder::new().prefix("redislock-bench-").tempdir().expect("a folder for a server");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        drop(listener);
        let mut config = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsave ''\nmaxclients 19000\ntcp-backlog 1024\nloglevel warning\n\
             repl-diskless-sync-delay 0\nappendonly {}\nappendfsync everysec\n\
             auto-aof-rewrite-percentage 0\n",
            folder.path().display(),
            if setup.aof { "yes" } else { "no" },
        );
        if let Some(primary) = setup.replica_of {
            config += &format!("replicaof 127.0.0.1 {primary}\n");
        }
        if setup.module {
            config += &format!("loadmodule {}\n", module().display());
        }
        fs::write(folder.path().join("server.conf"), config).expect("a configuration file");
        let log_path = folder.path().join("log");
        let log = fs::File::create(&log_path).expect("a log file");
        let mut child = command(setup, folder.path())
            .arg(folder.path().join("server.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle on the log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program()));
        let begin = Instant::now();
        loop {
            if child.try_wait().expect("the server's state").is_some() {
                let log = fs::read_to_string(&log_path).unwrap_or_default();
                assert!(log.contains("Address already in use"), "the server ended at its start:\n{log}");
                return None;
            }
            if let Some(control) = Control::connect(port, child.id()) {
                return Some(Self { child, port, control, folder });
            }
            assert!(begin.elapsed() < PATIENCE, "the server does not answer");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// A replica of this server, in sync with it.
    pub(crate) fn replica(&mut self, setup: Setup) -> Self {
        let mut replica = Self::start(Setup { replica_of: Some(self.port), ..setup });
        let begin = Instant::now();
        while field(&replica.control.info("replication"), "master_link_status") != Some("up") {
            assert!(begin.elapsed() < PATIENCE, "the replica does not come into sync");
            thread::sleep(Duration::from_millis(10));
        }
        // It says that it has what it gets for the first time up to a second later.
        self.ask("SET first 1");
        while self.ask("WAIT 9 20") == b":0\r\n" {
            assert!(begin.elapsed() < PATIENCE, "the replica acknowledges nothing");
        }
        self.ask("DEL first");
        replica
    }

    /// The answer to a command of words without spaces.
    pub(crate) fn ask(&mut self, line: &str) -> Vec<u8> {
        self.control.ask(&resp::words(line))
    }

    /// Whether the server has that command.
    pub(crate) fn knows(&mut self, command: &str) -> bool {
        let reply = self.ask(&format!("COMMAND INFO {command}"));
        !matches!(&reply[..], b"*1\r\n*-1\r\n" | b"*1\r\n$-1\r\n")
    }

    /// A script's name for `EVALSHA`.
    pub(crate) fn script(&mut self, source: &str) -> String {
        let reply = self.control.ask(&resp::request(&["SCRIPT", "LOAD", source]));
        let reply = String::from_utf8(reply).expect("a script's name");
        reply.lines().nth(1).unwrap_or_else(|| panic!("SCRIPT LOAD: {reply}")).into()
    }

    /// How much processor time the server has used, all its threads, in nanoseconds. Exact while it is idle.
    pub(crate) fn cpu_ns(&mut self) -> f64 {
        let info = self.control.info("cpu");
        (number(&info, "used_cpu_user") + number(&info, "used_cpu_sys")) * 1e9
    }

    /// How many bytes the server has allocated.
    pub(crate) fn used_memory(&mut self) -> f64 {
        number(&self.control.info("memory"), "used_memory")
    }

    /// Waits until the server has seen that all who closed their connections are gone: only this one is left.
    pub(crate) fn wait_for_departures(&mut self) {
        while number(&self.control.info("clients"), "connected_clients") > 1.0 {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// A field of the module's own section of `INFO`.
    pub(crate) fn lock_info(&mut self, name: &str) -> f64 {
        number(&self.control.info("lock"), name)
    }

    /// How many clients wait.
    pub(crate) fn blocked_clients(&mut self) -> usize {
        number(&self.control.info("clients"), "blocked_clients") as usize
    }

    /// Ends a server that Callgrind runs; how many instructions it has executed, and how many of them are the module's own.
    pub(crate) fn instructions(mut self) -> (f64, f64) {
        self.control.stream.write_all(&resp::words("SHUTDOWN NOSAVE")).expect("a request that goes out");
        let status = self.child.wait().expect("the server's end");
        let log = fs::read_to_string(self.folder.path().join("log")).expect("the server's log");
        assert!(status.success(), "the server ended: {status}\n{log}");
        let mut counts = log.lines().filter_map(|line| line.split_once("Collected : "));
        let (_, count) = counts.next_back().unwrap_or_else(|| panic!("Callgrind tells no count:\n{log}"));
        let own = fs::read_to_string(self.folder.path().join("callgrind")).expect("Callgrind's file");
        (count.trim().parse().expect("a number"), own_instructions(&own))
    }

    /// A setting that is a number; none: the server has no such setting.
    pub(crate) fn setting(&mut self, name: &str) -> Option<f64> {
        let reply = self.ask(&format!("CONFIG GET {name}"));
        String::from_utf8_lossy(&reply).lines().last()?.parse().ok()
    }

    /// Whether the process is there.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("the server's state").is_none()
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Its files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server's kind and version.
    pub(crate) fn version(&mut self) -> String {
        let info = self.control.info("server");
        match field(&info, "valkey_version") {
            Some(version) => format!("Valkey {version}"),
            None => format!("Redis {}", field(&info, "redis_version").unwrap_or("of unknown version")),
        }
    }
}

/// The instructions of the module's own code, without what it calls, as Callgrind's file has them: `ob=` names an object, by
/// a number that stands for it from then on; a line of a place and a count follows for each place, and one after `calls=` for
/// what was called from there.
fn own_instructions(callgrind: &str) -> f64 {
    let mut module = None;
    let (mut in_module, mut of_callee, mut own) = (false, false, 0.0);
    for line in callgrind.lines() {
        if let Some((number, name)) = line
            .strip_prefix("ob=")
            .or(line.strip_prefix("cob="))
            .map(|object| object.split_once(' ').unwrap_or((object, "")))
        {
            if name.ends_with("/libredislock.so") {
                module = Some(number);
            }
            if line.starts_with("ob=") {
                in_module = module == Some(number);
            }
        } else if line.starts_with("calls=") {
            of_callee = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let count = line.split(' ').nth(1).and_then(|count| count.parse::<f64>().ok());
            if in_module && !std::mem::take(&mut of_callee) {
                own += count.unwrap_or(0.0);
            }
            of_callee = false;
        }
    }
    own
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended, or being killed: there is nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection for what is not measured.
struct Control {
    stream: TcpStream,
}

impl Control {
    /// None: that very process does not answer there yet.
    fn connect(port: u16, process: u32) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_nodelay(true).ok()?;
        let mut control = Self { stream };
        let info = control.info("server");
        (field(&info, "process_id")? == process.to_string()).then_some(control)
    }

    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.stream.write_all(request).expect("a request that goes out");
        let mut reply = Vec::new();
        let mut buffer = [0; 16 * 1024];
        while resp::reply_len(&reply).is_none() {
            let count = self.stream.read(&mut buffer).expect("a reply");
            assert!(count > 0, "the server closed the connection");
            reply.extend_from_slice(&buffer[..count]);
        }
        reply
    }

    fn info(&mut self, section: &str) -> String {
        String::from_utf8_lossy(&self.ask(&resp::request(&["INFO", section]))).into_owned()
    }
}

/// A field of a section of `INFO`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(field, _)| *field == name).map(|(_, value)| value.trim())
}

fn number(info: &str, name: &str) -> f64 {
    let value = field(info, name).and_then(|text| text.parse().ok());
    value.unwrap_or_else(|| panic!("INFO tells no {name}: {info}"))
}
