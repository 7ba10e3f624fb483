//! The lock over several servers of docs/redlock.md: 5 servers, 3 clients at once, servers that die.

#[allow(dead_code)]
#[path = "../docs/redlock.rs"]
mod redlock;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Client, Connection, RedisResult, cmd};
use redlock::Redlock;
use socket2::{Domain, Socket, Type};

struct Server {
    process: Child,
    folder: PathBuf,
    url: String,
    /// Has the port while the server is down too, so that no other server comes up there. It never listens: of sockets with
    /// `SO_REUSEADDR`, Linux lets several have one port while no more than one of them listens.
    _held: Socket,
}

impl Server {
    /// Waits until it answers.
    fn start() -> Self {
        let held = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        held.set_reuse_address(true).unwrap();
        held.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let port = held.local_addr().unwrap().as_socket().unwrap().port();
        let folder = std::env::temp_dir().join(format!("redislock-{}", uuid::Uuid::new_v4()));
        fs::create_dir(&folder).unwrap();
        let process = Command::new(std::env::var("REDISLOCK_SERVER").unwrap())
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(&folder)
            .args(["--loadmodule", &std::env::var("REDISLOCK_SO").unwrap()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let url = format!("redis://127.0.0.1:{port}");
        let server = Server { process, folder, url, _held: held };
        wait_for(|| server.answers(), "the server answers");
        server
    }

    fn connect(&self) -> RedisResult<Connection> {
        Client::open(self.url.as_str())?.get_connection()
    }

    fn answers(&self) -> bool {
        self.connect().is_ok_and(|mut connection| cmd("PING").exec(&mut connection).is_ok())
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

fn wait_for(condition: impl Fn() -> bool, what: &str) {
    let end = Instant::now() + Duration::from_secs(100);
    while !condition() {
        assert!(Instant::now() < end, "not within 100 s: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn lock(servers: &[Server], wait: Duration) -> Redlock {
    let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
    Redlock::new(&urls, "job", Duration::from_secs(10), wait).unwrap()
}

#[test]
fn it_outlives_two_of_five_servers_and_tells_when_three_are_gone() {
    let mut servers: Vec<Server> = (0..5).map(|_| Server::start()).collect();
    let (at_work, killed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done = Mutex::new(Vec::new());
    let job = |lock: &mut Redlock| {
        assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0, "two at work");
        thread::sleep(Duration::from_millis(5)); // the others' chance
        lock.with(|lock| lock.extend()).unwrap().unwrap(); // a re-entry; an extension by a majority
        at_work.fetch_sub(1, Ordering::SeqCst);
        done.lock().unwrap().push(lock.fences.clone());
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            let mut lock = lock(&servers, Duration::from_secs(100));
            let (job, killed) = (&job, &killed);
            scope.spawn(move || {
                (0..2).for_each(|_| lock.with(job).unwrap());
                wait_for(|| killed.load(Ordering::SeqCst), "servers are killed");
                (0..3).for_each(|_| lock.with(job).unwrap());
            });
        }
        wait_for(|| done.lock().unwrap().len() >= 4, "some jobs are done");
        servers[..2].iter_mut().for_each(Server::kill);
        killed.store(true, Ordering::SeqCst);
    });
    let done = done.into_inner().unwrap();
    assert_eq!(done.len(), 15);
    for pair in done.windows(2) {
        let both = pair[0].iter().zip(&pair[1]).filter_map(|(earlier, later)| Some(((*earlier)?, (*later)?)));
        let shared: Vec<_> = both.collect();
        assert!(!shared.is_empty() && shared.iter().all(|(earlier, later)| earlier < later), "{pair:?}");
    }

    servers[2].kill();
    for _ in 0..3 {
        let told = lock(&servers, Duration::from_millis(300)).with(|_| panic!("two servers are no majority"));
        assert!(told.is_err());
    }
}

#[test]
fn one_that_waits_in_vain_leaves_nothing_behind() {
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    for server in &servers[..2] {
        cmd("LOCK.ACQUIRE").arg("job").exec(&mut server.connect().unwrap()).unwrap();
    }
    let exists = |server: &Server| cmd("EXISTS").arg("job").query(&mut server.connect().unwrap()).unwrap();
    let told = lock(&servers, Duration::ZERO).with(|_| panic!("two have the lock"));
    assert!(told.unwrap_err().to_string().contains("1 of 3 servers"));
    assert_eq!(servers.iter().map(exists).collect::<Vec<bool>>(), [true, true, false]);
}

#[test]
fn a_holder_is_told_that_the_lock_was_lost() {
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let take_away =
        |server: &Server| cmd("LOCK.BREAK").arg("job").exec(&mut server.connect().unwrap()).unwrap();
    let mut lock = lock(&servers, Duration::from_secs(60));
    lock.with(|lock| {
        take_away(&servers[0]);
        lock.extend().unwrap();
    })
    .unwrap();
    let told = lock.with(|lock| {
        servers[..2].iter().for_each(take_away);
        assert!(lock.extend().is_err());
    });
    assert!(told.is_err());
}
