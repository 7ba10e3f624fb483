//! A server of a test's own: on a free port, in a folder that goes with it.

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

/// The module's defaults do not fit tests: sessions are short, some tests take many locks, and a busy machine is slow to set one up.
const BOUNDS: [(&str, u32); 4] =
    [("min-session-lease", 1), ("max-keys", 1_000), ("max-places", 100_000), ("default-lease", 300_000)];

/// How a server is to be started.
#[derive(Clone)]
pub(crate) struct Setup {
    config: String,
    /// The `loadmodule` arguments; none: no module.
    module: Option<String>,
    /// With the bounds and the lease that it has by default.
    shipped: bool,
    /// The module is the one whose callbacks panic on demand.
    faults: bool,
    /// What is in its folder to begin with: where, and its bytes.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// What follows the configuration file on the command line.
    args: Vec<String>,
    /// Variables of its environment.
    variables: Vec<(String, PathBuf)>,
    /// Where its folder is to be.
    parent: PathBuf,
}

impl Setup {
    /// The module without arguments, nothing saved, `DEBUG` and `MODULE` allowed.
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

    /// A line of the configuration file; a later one wins.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        writeln!(self.config, "{name} {value}").unwrap();
        self
    }

    /// What follows the path on the `loadmodule` line.
    pub(crate) fn module_args(mut self, args: &str) -> Self {
        self.module = Some(args.into());
        self
    }

    /// The module has the bounds and the lease that it has by default.
    pub(crate) fn shipped(mut self) -> Self {
        self.shipped = true;
        self
    }

    /// With `LOCK.FAULT`, which has a callback of the module panic.
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

    /// Begins with a copy of that RDB file.
    pub(crate) fn with_rdb(self, file: &Path) -> Self {
        let bytes = fs::read(file).unwrap();
        self.with_file("dump.rdb", bytes)
    }

    /// Begins with that file in its folder; a later one in the same place wins.
    pub(crate) fn with_file(mut self, place: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((place.into(), bytes.into()));
        self
    }

    /// With that variable in its environment.
    pub(crate) fn with_variable(mut self, name: &str, path: PathBuf) -> Self {
        self.variables.push((name.into(), path));
        self
    }

    /// With its files in a folder there.
    pub(crate) fn in_folder(mut self, parent: &Path) -> Self {
        self.parent = parent.into();
        self
    }

    /// The server, once it answers.
    #[track_caller]
    pub(crate) fn start(self) -> Server {
        loop {
            match self.clone().try_start() {
                Ok(server) => return server,
                // Another program has got it meanwhile: the system lets it listen there, if it says SO_REUSEADDR as well.
                Err(log) if log.contains("Address already in use") => {}
                Err(log) => panic!("the server ended at its start; its log:\n{log}"),
            }
        }
    }

    /// The server, once it answers, and a connection to it.
    #[track_caller]
    pub(crate) fn start_and_client(self) -> (Server, Client) {
        let server = self.start();
        let client = server.client();
        (server, client)
    }

    /// The server, once it answers; its log, and how it ended, where it ends at its start.
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

/// How long a server may look for what is wrong with a file that it could not read.
const CHECK: Duration = Duration::from_millis(300);

/// A running server; ended when dropped, its log printed where the test fails.
pub(crate) struct Server {
    setup: Setup,
    folder: TempDir,
    port: Port,
    child: Option<Child>,
}

/// The process ended so.
struct Ended(String);

impl Server {
    #[track_caller]
    pub(crate) fn start() -> Self {
        Setup::new().start()
    }

    /// A server, and a connection to it.
    #[track_caller]
    pub(crate) fn and_client() -> (Self, Client) {
        Setup::new().start_and_client()
    }

    /// A server, and so many connections to it.
    #[track_caller]
    pub(crate) fn and_clients<const N: usize>() -> (Self, [Client; N]) {
        let server = Self::start();
        let clients = [(); N].map(|()| server.client());
        (server, clients)
    }

    /// A server on which alice holds `k` for ten minutes, and the connection that asked for that.
    #[track_caller]
    pub(crate) fn held() -> (Self, Client) {
        let (server, mut client) = Self::and_client();
        client.acquire("k", "OWNER alice PX 600000").unwrap();
        (server, client)
    }

    /// `held`, and bob waits for `k`.
    #[track_caller]
    pub(crate) fn waited_for() -> (Self, Client, Waiter) {
        let (server, client) = Self::held();
        let bob = Waiter::new(&server, "k", "OWNER bob");
        (server, client, bob)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    /// The process' id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map(Child::id).expect("the server runs")
    }

    /// Where the server's files are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// All that the server has logged, over restarts.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.folder().join("log")
    }

    /// A new connection in RESP2.
    #[track_caller]
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.port(), "resp2").unwrap()
    }

    /// A new connection in RESP3.
    #[track_caller]
    pub(crate) fn client_resp3(&self) -> Client {
        Client::connect(self.port(), "resp3").unwrap()
    }

    /// A new connection of a user `guest`, who has these rights and no others.
    #[track_caller]
    pub(crate) fn client_of(&self, rules: &str) -> Client {
        let mut client = self.client();
        client.ask::<()>(&format!("ACL SETUSER guest reset on nopass {rules}"));
        client.ask::<()>("AUTH guest x");
        client
    }

    /// A replica of this server, once it is in sync with it.
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

    /// Waits until this replica has all that its primary has sent.
    #[track_caller]
    pub(crate) fn wait_for_sync_with(&self, primary: &Self) {
        let (mut here, mut there) = (self.client(), primary.client());
        wait_for("a replica in sync with its primary", || {
            here.info("replication", "master_link_status") == "up"
                && here.info("replication", "slave_repl_offset")
                    == there.info("replication", "master_repl_offset")
        });
    }

    /// Kills the process at once, as `kill -9` does, and starts it again on the same files and port.
    #[track_caller]
    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        self.relaunch();
    }

    /// Shuts the server down in good order, with an RDB file saved, and starts it again on the same files and port.
    #[track_caller]
    pub(crate) fn save_and_restart(&mut self) {
        // The answer is that the connection ends.
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

    /// Kills the process at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts a killed server again on the same files and port.
    #[track_caller]
    pub(crate) fn relaunch(&mut self) {
        if let Err(Ended(status)) = self.launch() {
            panic!("the server ended when it was started again: {status}");
        }
    }

    /// Ends the process at once, or, with `REDISLOCK_END=term`, as it ends by itself: a checker of memory has its say then.
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

    /// Not written again by a restart: `CONFIG REWRITE` may have changed it.
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

    /// Starts the process on `self.port`; returns once it answers.
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
            // The server looks for what is wrong with a file, and where that is the end of a module's value, for ever.
            if began.elapsed() > CHECK && self.log().contains("Internal error in RDB reading") {
                self.kill();
                return Err(Ended("killed, as it had given the file up".into()));
            }
            assert!(began.elapsed() < PATIENCE, "the server gave no answer");
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Whether it answers, with its data loaded.
    fn answers(&self) -> bool {
        // By hand, and not patient: a server that does not get on may still have its port open.
        let answer = TcpStream::connect(("127.0.0.1", self.port())).and_then(|mut stream| {
            stream.set_read_timeout(Some(CHECK))?;
            stream.write_all(b"INFO\r\n")?;
            let (mut reader, mut head) = (BufReader::new(stream), String::new());
            reader.read_line(&mut head)?;
            let length = head.strip_prefix('$').and_then(|length| length.trim_end().parse().ok());
            let mut text = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut text).map(|()| String::from_utf8_lossy(&text).into_owned())
        });
        // One that ends meanwhile closes the connection, and a sentinel loads nothing.
        answer.is_ok_and(|text| text.contains("\nprocess_id:") && !text.contains("\nloading:1\r"))
    }

    /// How the process ended; none while it runs.
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
        // A panic of the module, or a wrong index that its checks have found.
        let failed = !self.setup.faults && self.log().contains("internal error in ");
        assert!(panicking() || !failed, "{}", self.log());
    }
}
