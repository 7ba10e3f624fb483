//! Server processes on a port of the loopback interface, each in a folder that is removed with it. They are ended by their process id.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tempfile::{Builder, TempDir};

const PATIENCE: Duration = Duration::from_secs(60);

/// A running server process, which ends when this is dropped.
pub(crate) struct Process {
    pub(crate) child: Killed,
    pub(crate) port: u16,
    folder: TempDir,
}

impl Process {
    /// Starts the command that `command` makes for a folder and a free port, and waits until it is ready. The error says why not.
    pub(crate) fn start(
        folders: &Path,
        command: impl Fn(&Path, u16) -> Command,
        is_ready: impl Fn(&Self) -> bool,
    ) -> Result<Self, String> {
        for _ in 0..20 {
            let folder = Builder::new().prefix("redislock-bench-").tempdir_in(folders);
            let folder = folder.expect("a folder for a server");
            let port = free_port();
            let log = fs::File::create(folder.path().join("log")).expect("a log file");
            let mut command = command(folder.path(), port);
            command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log);
            let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
            let mut process = Self { child: Killed(child), port, folder };
            let begin = Instant::now();
            loop {
                if is_ready(&process) {
                    return Ok(process);
                }
                let is_over = !process.is_alive();
                if is_over && process.log().to_lowercase().contains("address already in use") {
                    // Another process took the port first.
                    break;
                }
                if is_over || begin.elapsed() > PATIENCE {
                    return Err(format!("it does not start:\n{}", process.log()));
                }
                thread::sleep(Duration::from_millis(2));
            }
        }
        panic!("no port to be had");
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn is_alive(&mut self) -> bool {
        self.child.0.try_wait().expect("the server's state").is_none()
    }
}

/// A port that nobody has.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Killed when dropped.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
