//! `redislock server`: a throwaway server with the module, for a first look and for test suites.
//!
//! The kernel kills the server, and the command, if this process ends first.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::Duration;

use redislock::blocking::Cancel;

use crate::failure::{Failure, NO_MODULE, OTHER, UNREACHABLE};
use crate::locks::print;
use crate::options::Server as Asked;
use crate::run::child::{self, Child};
use crate::run::{Event, code_of, signals, watch};
use crate::text::say;

/// The file names of servers, and the name to start each under. In Debian, `redis-check-rdb` is the server's own binary, which acts as a
/// server if it is started under the server's name.
const SERVERS: [(&str, &str); 4] = [
    ("redis-server", "redis-server"),
    ("valkey-server", "valkey-server"),
    ("redis-check-rdb", "redis-server"),
    ("valkey-check-rdb", "valkey-server"),
];
const MODULE: &str = "libredislock.so";
/// The folder into which our packages install the module.
const PACKAGED: &str = "/usr/lib/redis/modules";
/// How often `redislock server` asks whether the new server answers.
const LOOK: Duration = Duration::from_millis(10);
/// How long a command may go on after the server has ended.
const KILL_AFTER: Duration = Duration::from_secs(10);
/// How many of the log's last lines are shown.
const LINES: usize = 12;

pub(crate) fn main(asked: &Asked) -> Result<u8, Failure> {
    let (tell, events) = channel();
    signals::listen(&tell, &Cancel::default())?;
    let (server, name) = server(asked.server.as_deref())?;
    let module = module(asked.module.as_deref())?;
    let folder = tempfile::Builder::new()
        .prefix("redislock-server-")
        .tempdir()
        .map_err(|error| Failure::new(OTHER, format!("can't make a folder for the server: {error}")))?;
    let log = folder.path().join("log");
    let died = |what: &str| {
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n");
        Failure::new(UNREACHABLE, format!("{} {what}; its log ends with\n{last}", server.display()))
    };
    let start = |port: u16| -> std::io::Result<Child> {
        let mut command = child::tied();
        if server.ends_with(name) {
            command.arg(&server);
        } else {
            let own = folder.path().join(name);
            if !own.exists() {
                std::os::unix::fs::symlink(&server, &own)?;
            }
            command.arg(own);
        }
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
        command.args(["--save", "", "--appendonly", "no", "--logfile", "", "--dir"]).arg(folder.path());
        command.arg("--loadmodule").arg(&module);
        // In a group of its own, the server gets no signals from the terminal.
        command.process_group(0).stdin(Stdio::null());
        let output = fs::File::create(&log)?;
        command.stdout(output.try_clone()?).stderr(output);
        Child::spawn(command, &tell, Event::Lost("the server ended".to_owned()))
    };
    let failed = |error: std::io::Error| Failure::new(OTHER, format!("can't start the server: {error}"));
    'start: loop {
        let port = match asked.port {
            0 => free_port().map_err(failed)?,
            port => port,
        };
        let url = format!("redis://127.0.0.1:{port}");
        let mut running = Ended(start(port).map_err(failed)?);
        while !answers(&url, running.0.id()) {
            match events.recv_timeout(LOOK) {
                Ok(Event::Signal { number, .. }) => return Ok(crate::run::code_of_signal(number)),
                // Another program has taken the port meanwhile, so try another port.
                Ok(_) if asked.port == 0 && in_use(&log) => continue 'start,
                Ok(_) => return Err(died("did not start")),
                Err(_) => {}
            }
        }
        if asked.command.is_empty() {
            print(&format!("{url}\n"))?;
            say(format_args!("{} with {}, until Ctrl-C", server.display(), module.display()));
            return match events.recv() {
                Ok(Event::Signal { .. }) => Ok(0),
                _ => Err(died("ended")),
            };
        }
        let mut command = child::tied();
        command.args(&asked.command).env("REDIS_URL", &url);
        // These variables are for another server than the throwaway one.
        command.env_remove("REDISLOCK_USER").env_remove("REDISLOCK_PASSWORD");
        let command = Child::spawn(command, &tell, Event::Ended)
            .map_err(|error| Failure::new(OTHER, format!("can't start the command: {error}")))?;
        let (status, lost) = watch(command, &events, KILL_AFTER)?;
        running.end();
        return if lost.is_some() { Err(died("ended")) } else { Ok(code_of(status)) };
    }
}

/// The server. It is killed when this value is dropped, and none of its data is kept.
struct Ended(Child);

impl Ended {
    fn end(&mut self) {
        self.0.signal(signals::KILL);
        drop(self.0.status());
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.end();
    }
}

/// The path of a server's binary, and the name to start it under (see `SERVERS`).
fn server(given: Option<&Path>) -> Result<(PathBuf, &'static str), Failure> {
    let path = env::var_os("PATH").unwrap_or_default();
    for (file, name) in SERVERS {
        let found = match given {
            Some(given) => Some(given.to_owned()).filter(|given| given.ends_with(file) && given.is_file()),
            None => env::split_paths(&path).map(|folder| folder.join(file)).find(|path| path.is_file()),
        };
        // The path must be absolute, because the server starts in another folder.
        if let Some(found) = found.and_then(|found| std::path::absolute(found).ok()) {
            return Ok((found, name));
        }
    }
    Err(Failure::new(
        UNREACHABLE,
        match given {
            Some(given) => format!("{} is no redis-server or valkey-server", given.display()),
            None => format!(
                "no redis-server or valkey-server in the PATH ({}): install one, or say --server FILE",
                path.to_string_lossy()
            ),
        },
    ))
}

fn module(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let beside = env::current_exe().ok().and_then(|program| Some(program.parent()?.join(MODULE)));
    let tried: Vec<PathBuf> = match given {
        Some(given) => vec![given.to_owned()],
        None => beside.into_iter().chain([Path::new(PACKAGED).join(MODULE)]).collect(),
    };
    tried.iter().find(|path| path.is_file()).and_then(|found| std::path::absolute(found).ok()).ok_or_else(
        || {
            let tried: Vec<_> = tried.iter().map(|path| path.display().to_string()).collect();
            Failure::new(
                NO_MODULE,
                format!("no module: neither file is there: {}: say --module FILE", tried.join(", ")),
            )
        },
    )
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn in_use(log: &Path) -> bool {
    fs::read(log).is_ok_and(|log| String::from_utf8_lossy(&log).contains("Address already in use"))
}

/// Whether the server with this process id answers at this URL.
fn answers(url: &str, process: u32) -> bool {
    let info = || -> redis::RedisResult<String> {
        let client = redis::Client::open(url)?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
        redis::cmd("INFO").arg("server").query(&mut connection)
    };
    info().is_ok_and(|info| info.lines().any(|line| line == format!("process_id:{process}")))
}
