//! Redis and Valkey servers that the benchmark starts, with the module and without it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;
use std::{env, fs, thread};

use crate::line::Line;
use crate::process::{Process, free_port};
use crate::resp::{request, words};

#[derive(Clone, Copy, Default)]
pub(crate) struct Setup {
    pub(crate) module: bool,
    /// Whether the server is a node of a cluster, which has no slots at first.
    pub(crate) node: bool,
    /// Whether the server runs under Callgrind, which counts its instructions.
    pub(crate) callgrind: bool,
}

impl Setup {
    pub(crate) const PLAIN: Self = Self { module: false, node: false, callgrind: false };
    pub(crate) const MODULE: Self = Self { module: true, ..Self::PLAIN };
    pub(crate) const NODE: Self = Self { node: true, ..Self::MODULE };
}

pub(crate) struct Server {
    process: Process,
    pub(crate) port: u16,
    /// A connection for what is not measured.
    control: RefCell<Line>,
}

pub(crate) fn program() -> String {
    env::var("REDISLOCK_SERVER").unwrap_or_else(|_| "redis-server".into())
}

/// Returns the path of the module: what `REDISLOCK_SO` names, or what was built beside this program.
fn module() -> PathBuf {
    let own = env::current_exe().expect("this program's path");
    let path = env::var_os("REDISLOCK_SO").map_or(own.with_file_name("../libredislock.so"), PathBuf::from);
    path.canonicalize().unwrap_or_else(|_| panic!("{} is missing: run scripts/bench", path.display()))
}

/// Returns the command that runs the server in a folder, directly or under Callgrind.
fn command(setup: Setup, folder: &Path, port: u16) -> Command {
    let mut config = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nsave ''\nmaxclients 19000\ntcp-backlog 1024\nloglevel warning\n",
        folder.display(),
    );
    if setup.module {
        config += &format!("loadmodule {}\n", module().display());
    }
    if setup.node {
        // The default bus port, the port plus 10,000, may be in use. A node may stall for seconds, so claims have much time.
        config += &format!("cluster-enabled yes\ncluster-port {}\nlock.claim 60000\n", free_port());
    }
    let file = folder.join("server.conf");
    fs::write(&file, config).expect("a configuration file");
    let mut command = Command::new(if setup.callgrind { "valgrind".into() } else { program() });
    if setup.callgrind {
        // The server's program may be a script, so Callgrind must follow child processes.
        command.args(["--tool=callgrind", "--trace-children=yes"]);
        // These functions are not counted because their cost varies from run to run: periodic work, our own `INFO` commands, and the
        // look-up of a command by its name, whose hash table has a random seed.
        let chores = ["serverCron", "infoCommand", "lookupCommandLogic"];
        command.args(chores.map(|name| format!("--toggle-collect={name}")));
        // This option comes last, because each `--toggle-collect` turns counting off at the start.
        command.arg("--collect-atstart=yes");
        command.arg(format!("--callgrind-out-file={}", folder.join("callgrind").display()));
        command.arg(program());
    }
    command.arg(file);
    command
}

impl Server {
    pub(crate) fn start(setup: Setup) -> Self {
        let control = RefCell::new(None);
        let is_ready = |process: &Process| {
            let Some(mut line) = Line::try_new(process.port) else { return false };
            // Another process may have taken the port first.
            let Ok(info) = line.say("INFO server") else { return false };
            let is_own = field(&info, "process_id") == Some(process.child.0.id().to_string());
            *control.borrow_mut() = is_own.then_some(line);
            is_own
        };
        let process = Process::start(&env::temp_dir(), |folder, port| command(setup, folder, port), is_ready)
            .unwrap_or_else(|error| panic!("{}: {error}", program()));
        let control = RefCell::new(control.into_inner().expect("a connection to what is ready"));
        Self { port: process.port, process, control }
    }

    pub(crate) fn shared(setup: Setup) -> Rc<Self> {
        Rc::new(Self::start(setup))
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn reply(&self, request: &[u8]) -> Vec<u8> {
        self.control.borrow_mut().ask(request).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the reply to a command whose words contain no spaces.
    pub(crate) fn ask(&self, line: &str) -> Vec<u8> {
        self.reply(&words(line))
    }

    pub(crate) fn knows(&self, command: &str) -> bool {
        let reply = self.ask(&format!("COMMAND INFO {command}"));
        !matches!(&reply[..], b"*1\r\n*-1\r\n" | b"*1\r\n$-1\r\n")
    }

    /// Loads a script. Returns its hash for `EVALSHA`.
    pub(crate) fn script(&self, source: &str) -> String {
        let reply = self.reply(&request(&["SCRIPT", "LOAD", source]));
        String::from_utf8_lossy(&reply).lines().nth(1).expect("a script's name").into()
    }

    /// Returns the processor time of all the server's threads, in ns. The value is exact while the server is idle.
    pub(crate) fn cpu_ns(&self) -> f64 {
        let info = self.ask("INFO cpu");
        (number(&info, "used_cpu_user") + number(&info, "used_cpu_sys")) * 1e9
    }

    pub(crate) fn info(&self, section: &str, name: &str) -> f64 {
        number(&self.ask(&format!("INFO {section}")), name)
    }

    /// Returns the bytes of each of the `count` things that `make` makes, to a tenth: smaller differences are housekeeping.
    pub(crate) fn bytes_of_each(&self, count: usize, make: impl FnOnce()) -> f64 {
        let before = self.info("memory", "used_memory");
        make();
        ((self.info("memory", "used_memory") - before) / count as f64 * 10.0).round() / 10.0
    }

    /// Waits until the server has noticed all closed connections: only this one is left.
    pub(crate) fn wait_for_departures(&self) {
        while self.info("clients", "connected_clients") > 1.0 {
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn blocked_clients(&self) -> usize {
        self.info("clients", "blocked_clients") as usize
    }

    /// Ends a server that Callgrind runs. Returns how many instructions it has executed, and how many of them in the module's own code.
    pub(crate) fn instructions(self) -> [f64; 2] {
        let Self { mut process, control, .. } = self;
        control.into_inner().send(&words("SHUTDOWN NOSAVE")).expect("a request that goes out");
        let status = process.child.0.wait().expect("the server's end");
        let log = process.log();
        assert!(status.success(), "the server ended: {status}\n{log}");
        let mut counts = log.lines().filter_map(|line| line.split_once("Collected : "));
        let (_, count) = counts.next_back().unwrap_or_else(|| panic!("Callgrind tells no count:\n{log}"));
        let own = fs::read_to_string(process.folder().join("callgrind")).expect("Callgrind's file");
        [count.trim().parse().expect("a number"), own_instructions(&own)]
    }

    /// The server's kind and version.
    pub(crate) fn version(&self) -> String {
        let info = self.ask("INFO server");
        match field(&info, "valkey_version") {
            Some(version) => format!("Valkey {version}"),
            None => format!("Redis {}", field(&info, "redis_version").unwrap_or("of unknown version".into())),
        }
    }
}

/// Returns the instructions of the module's own code, without the functions that it calls, from Callgrind's output. There, `ob=` names an
/// object file, with a number that stands for it later; each line with a position and a count is the object's own cost, except the line
/// after `calls=`, which is the cost of the call.
fn own_instructions(callgrind: &str) -> f64 {
    let mut module = None;
    let (mut in_module, mut of_callee, mut own) = (false, false, 0.0);
    for line in callgrind.lines() {
        if let Some(object) = line.strip_prefix("ob=").or(line.strip_prefix("cob=")) {
            let (number, name) = object.split_once(' ').unwrap_or((object, ""));
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

pub(crate) fn field(info: &[u8], name: &str) -> Option<String> {
    let info = String::from_utf8_lossy(info);
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(field, _)| *field == name).map(|(_, value)| value.trim().into())
}

fn number(info: &[u8], name: &str) -> f64 {
    let value = field(info, name).and_then(|text| text.parse().ok());
    value.unwrap_or_else(|| panic!("INFO tells no {name}: {}", info.escape_ascii()))
}
