//! A server that is stopped for a while: it finds everything that reaches it meanwhile at once.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::{Client, PATIENCE, Server, wait_for};

/// Runs the body while the server's process is stopped.
#[track_caller]
pub(crate) fn while_stopped<T>(server: &Server, body: impl FnOnce() -> T) -> T {
    freeze(server);
    let result = body();
    wake(server);
    result
}

/// Stops the server's process.
#[track_caller]
pub(crate) fn freeze(server: &Server) {
    kill_process(pid(server), Signal::STOP).unwrap();
    wait_for("the process to stop", || state(server) == "T");
}

/// Lets a frozen server continue.
#[track_caller]
pub(crate) fn wake(server: &Server) {
    kill_process(pid(server), Signal::CONT).unwrap();
}

/// Returns a script that keeps the server busy for this many seconds of processor time. The client gets enough patience for a busy machine.
#[track_caller]
pub(crate) fn busy_script(client: &mut Client, seconds: f64) -> String {
    client.set_patience(4 * PATIENCE);
    // Redis 7.0 has no `os`. Later servers show a script only the time at which it began, so it uses `os.clock`.
    let clock = if client.version() < (7, 2) {
        "function() local now = redis.call('TIME') return now[1] + now[2] / 1000000 end"
    } else {
        "os.clock"
    };
    format!("local clock = {clock} local began = clock() while clock() - began < {seconds} do end return 1")
}

/// Whether the client has closed its connection from this port, as far as the server's system knows; the server may not have noticed it
/// yet.
pub(crate) fn is_closed_by_client(server: &Server, port: u16) -> bool {
    const CLOSE_WAIT: &str = "08";
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
    let of_server = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let ends_in = |field: &str, port: u16| field.ends_with(&format!(":{port:04X}"));
        ends_in(fields[1], server.port()) && ends_in(fields[2], port) && fields[3] == CLOSE_WAIT
    };
    sockets.lines().skip(1).any(|line| of_server(&line))
}

fn pid(server: &Server) -> Pid {
    Pid::from_raw(server.pid().cast_signed()).unwrap()
}

/// Returns the letter for the state of the process.
fn state(server: &Server) -> String {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields[..1].into()
}
