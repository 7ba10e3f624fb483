//! A server of one test, on a free port, with a folder that is removed afterwards.

use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{panicking, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::module::{faulty_module_path, module_path, server_program};
use super::port::Port;
use super::{Client, PATIENCE, Waiter, pace, wait_for};

/// Limits for tests: sessions are short, some tests acquire many locks, and a busy machine sets tests up slowly.
const BOUNDS: [(&str, u32); 4] =
    [("min-session-lease", 1), ("max-keys", 1_000), ("max-places", 100_000), ("default-lease", 300_000)];

/// How to start a server.
#[derive(Clone)]
pub(crate) struct Setup {
    config: String,
    /// The arguments of `loadmodule`; `None`: without the module.
    module: Option<String>,
    /// Whether the module has its default limits and lease.
    shipped: bool,
    /// Whether the module is the build whose callbacks panic on demand.
    faults: bool,
    /// Files that are in the folder at the start: the path and the contents of each.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// Arguments that follow the configuration file on the command line.
    args: Vec<String>,
    /// Environment variables of the server.
    variables: Vec<(String, PathBuf)>,
    /// The folder in which the server's folder is made.
    parent: PathBuf,
}

impl Setup {
    /// The module has no arguments, nothing is saved, and `DEBUG` and `MODULE` are allowed.
    pub(crate) fn new() -> Self {
        Self::bare()
            .module_args("")
            .set("save", "''")
            .set("bind", "127.0.0.1")
            .set("enable-debug-command", "yes")
            .set("enable-module-command", "yes")
            .set("repl-diskless-sync-delay", "0")
            .set("repl-ping-replica-period", "1")
    }

    fn bare() -> Self {
        Self {
            config: String::new(),
            module: None,
            shipped: false,
            faults: false,
            files: Vec::new(),
            args: Vec::new(),
            variables: Vec::new(),
            parent: env::temp_dir(),
        }
    }

    /// Adds a line to the configuration file; a later one wins.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        writeln!(self.config, "{name} {value}").unwrap();
        self
    }

    /// Sets the arguments after the path on the `loadmodule` line.
    pub(crate) fn module_args(mut self, args: &str) -> Self {
        self.module = Some(args.into());
        self
    }

    /// Gives the module its default limits and lease.
    pub(crate) fn shipped(mut self) -> Self {
        self.shipped = true;
        self
    }

    /// Uses the module with `LOCK.FAULT`, which makes a callback of the module panic.
    pub(crate) fn with_faults(mut self) -> Self {
        self.faults = true;
        self
    }

    pub(crate) fn without_module(mut self) -> Self {
        self.module = None;
        self
    }

    /// A sentinel, without the module.
    pub(crate) fn sentinel() -> Self {
        Self { args: vec!["--sentinel".into()], ..Self::bare() }.set("bind", "127.0.0.1")
    }

    /// Starts with a copy of this RDB file.
    pub(crate) fn with_rdb(self, file: &Path) -> Self {
        let bytes = fs::read(file).unwrap();
        self.with_file("dump.rdb", bytes)
    }

    /// Starts with this file in the folder; a later one at the same path wins.
    pub(crate) fn with_file(mut self, place: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((place.into(), bytes.into()));
        self
    }

    /// Adds an environment variable.
    pub(crate) fn with_variable(mut self, name: &str, path: PathBuf) -> Self {
        self.variables.push((name.into(), path));
        self
    }

    /// Makes the server's folder inside this one.
    pub(crate) fn in_folder(mut self, parent: &Path) -> Self {
        self.parent = parent.into();
        self
    }

    /// Starts the server, and waits until it answers.
    #[track_caller]
    pub(crate) fn start(self) -> Server {
        loop {
            match self.clone().try_start() {
                Ok(server) => return server,
                // Another program took the port, which the system allows if it uses SO_REUSEADDR, too.
                Err(log) if log.contains("Address already in use") => {}
                Err(log) => panic!("the server ended at its start; its log:\n{log}"),
            }
        }
    }

    /// Starts the server, waits until it answers, and connects to it.
    #[track_caller]
    pub(crate) fn start_and_client(self) -> (Server, Client) {
        let server = self.start();
        let client = server.client();
        (server, client)
    }

    /// Starts the server, and waits until it answers. The error has its log and its exit status.
    pub(crate) fn try_start(self) -> Result<Server, String> {
        pace::watch();
        let mut server = Server {
            folder: tempfile::Builder::new().prefix("redislock-").tempdir_in(&self.parent).unwrap(),
            setup: self,
            port: Port::free(),
            child: None,
        };
        for (place, bytes) in &server.setup.files {
            let path = server.folder().join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        server.write_config();
        match server.launch() {
            Ok(()) => Ok(server),
            Err(Ended(status)) => Err(format!("{}ended: {status}\n", server.log())),
        }
    }
}

/// How long a server may analyze a file that it could not read.
const CHECK: Duration = Duration::from_millis(300);

/// A running server, which ends when this is dropped. If the test fails, its log is printed.
pub(crate) struct Server {
    setup: Setup,
    folder: TempDir,
    port: Port,
    child: Option<Child>,
}

/// The process has ended, with this status.
struct Ended(String);

impl Server {
    #[track_caller]
    pub(crate) fn start() -> Self {
        Setup::new().start()
    }

    /// Starts a server, and connects to it.
    #[track_caller]
    pub(crate) fn and_client() -> (Self, Client) {
        Setup::new().start_and_client()
    }

    /// Starts a server, and opens this many connections to it.
    #[track_caller]
    pub(crate) fn and_clients<const N: usize>() -> (Self, [Client; N]) {
        let server = Self::start();
        let clients = [(); N].map(|()| server.client());
        (server, clients)
    }

    /// Starts a server on which alice holds `k` for ten minutes. Returns it and the connection that acquired the lock.
    #[track_caller]
    pub(crate) fn held() -> (Self, Client) {
        let (server, mut client) = Self::and_client();
        client.acquire("k", "OWNER alice PX 600000").unwrap();
        (server, client)
    }

    /// As `held`, and bob waits for `k`.
    #[track_caller]
    pub(crate) fn waited_for() -> (Self, Client, Waiter) {
        let (server, client) = Self::held();
        let bob = Waiter::new(&server, "k", "OWNER bob");
        (server, client, bob)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map(Child::id).expect("the server runs")
    }

    /// Returns the folder of the server's files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns everything that the server has logged, also before restarts.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.folder().join("log")
    }

    /// Opens a connection in RESP2.
    #[track_caller]
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.port(), "resp2").unwrap()
    }

    /// Opens a connection in RESP3.
    #[track_caller]
    pub(crate) fn client_resp3(&self) -> Client {
        Client::connect(self.port(), "resp3").unwrap()
    }

    /// Opens a connection of a user `guest`, who has only these rights.
    #[track_caller]
    pub(crate) fn client_of(&self, rules: &str) -> Client {
        let mut client = self.client();
        client.ask::<()>(&format!("ACL SETUSER guest reset on nopass {rules}"));
        client.ask::<()>("AUTH guest x");
        client
    }

    /// Starts a replica of this server, and waits until it is in sync.
    #[track_caller]
    pub(crate) fn replica(&self) -> Self {
        self.replica_with(Setup::new())
    }

    #[track_caller]
    pub(crate) fn replica_with(&self, setup: Setup) -> Self {
        let replica = setup.set("replicaof", &format!("127.0.0.1 {}", self.port())).start();
        replica.wait_for_sync_with(self);
        replica
    }

    /// Waits until this replica has everything that its primary has sent.
    #[track_caller]
    pub(crate) fn wait_for_sync_with(&self, primary: &Self) {
        let (mut here, mut there) = (self.client(), primary.client());
        wait_for("a replica in sync with its primary", || {
            here.info("replication", "master_link_status") == "up"
                && here.info("replication", "slave_repl_offset")
                    == there.info("replication", "master_repl_offset")
        });
    }

    /// Kills the process, as `kill -9` does, and starts it again with the same files and port.
    #[track_caller]
    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        self.relaunch();
    }

    /// Shuts the server down normally, saving an RDB file, and starts it again with the same files and port.
    #[track_caller]
    pub(crate) fn save_and_restart(&mut self) {
        // The command has no reply: the connection closes.
        self.client().begin("SHUTDOWN SAVE");
        self.wait_for_end();
        self.relaunch();
    }

    /// Waits until the process has ended by itself.
    #[track_caller]
    pub(crate) fn wait_for_end(&mut self) {
        wait_for("the server's end", || self.status().is_some());
        self.child = None;
    }

    /// Kills the process, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts a killed server again with the same files and port.
    #[track_caller]
    pub(crate) fn relaunch(&mut self) {
        if let Err(Ended(status)) = self.launch() {
            panic!("the server ended when it was started again: {status}");
        }
    }

    /// Kills the process, or, with `REDISLOCK_END=term`, lets it exit normally, so that a memory checker can report.
    fn end(&mut self) {
        if let Some(child) =
            self.child.as_mut().filter(|_| env::var("REDISLOCK_END").is_ok_and(|end| end == "term"))
        {
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
            let began = Instant::now();
            while began.elapsed() < PATIENCE && child.try_wait().is_ok_and(|status| status.is_none()) {
                sleep(Duration::from_millis(5));
            }
        }
        self.kill();
    }

    fn config_path(&self) -> PathBuf {
        self.folder().join("server.conf")
    }

    /// Writes the configuration file, only at the first start: `CONFIG REWRITE` may have changed it later.
    fn write_config(&self) {
        let mut text =
            format!("{}port {}\ndir {}\n", self.setup.config, self.port(), self.folder().display());
        if let Some(args) = &self.setup.module {
            let module = if self.setup.faults { faulty_module_path() } else { module_path() };
            let bounds = BOUNDS.iter().filter(|_| !self.setup.shipped);
            let unnamed = bounds.filter(|(name, _)| !args.contains(name));
            let bounds: String = unnamed.map(|(name, value)| format!(" {name} {value}")).collect();
            writeln!(text, "loadmodule \"{}\" {args}{bounds}", module.display()).unwrap();
        }
        fs::write(self.config_path(), text).unwrap();
    }

    /// Starts the process on `self.port`, and waits until it answers.
    fn launch(&mut self) -> Result<(), Ended> {
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let program = server_program();
        let child = Command::new(&program)
            .arg(self.config_path())
            .args(&self.setup.args)
            .envs(self.setup.variables.iter().map(|(name, path)| (name, path)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{program} does not start: {error}; REDISLOCK_SERVER names another")
            });
        pace::watch_server(child.id());
        self.child = Some(child);
        let began = Instant::now();
        while !self.answers() {
            if let Some(status) = self.status() {
                self.child = None;
                return Err(Ended(status.to_string()));
            }
            // A server that can't read a file analyzes it. If a module's value is cut off at the end of the file, it does so for ever.
            if began.elapsed() > CHECK && self.log().contains("Internal error in RDB reading") {
                self.kill();
                return Err(Ended("killed, as it had given the file up".into()));
            }
            assert!(began.elapsed() < PATIENCE, "the server gave no answer");
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Whether the server answers, and has loaded its data.
    fn answers(&self) -> bool {
        // This reads from a socket with a short timeout, because a server that hangs may still have its port open.
        let answer = TcpStream::connect(("127.0.0.1", self.port())).and_then(|mut stream| {
            stream.set_read_timeout(Some(CHECK))?;
            stream.write_all(b"INFO\r\n")?;
            let (mut reader, mut head) = (BufReader::new(stream), String::new());
            reader.read_line(&mut head)?;
            let length = head.strip_prefix('$').and_then(|length| length.trim_end().parse().ok());
            let mut text = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut text).map(|()| String::from_utf8_lossy(&text).into_owned())
        });
        // A server that ends meanwhile closes the connection, so the text is incomplete. A sentinel has no field `loading`.
        answer.is_ok_and(|text| text.contains("\nprocess_id:") && !text.contains("\nloading:1\r"))
    }

    /// Returns how the process ended, or `None` while it runs.
    fn status(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().expect("the server was started").try_wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let crashed = self.child.is_some() && self.status().is_some();
        self.end();
        if panicking() || crashed {
            let port = self.port();
            eprintln!("--- log of the server on port {port}:\n{}--- end of log", self.log());
        }
        assert!(panicking() || !crashed, "the server ended by itself");
        // The log has this text after a panic of the module, or if its checks have found a wrong index.
        let failed = !self.setup.faults && self.log().contains("internal error in ");
        assert!(panicking() || !failed, "{}", self.log());
    }
}
