//! A server that stands still for a while: what reaches it meanwhile it finds all at once.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::{Server, wait_for};

/// Runs the body while the server's process is stopped.
#[track_caller]
pub(crate) fn while_stopped<T>(server: &Server, body: impl FnOnce() -> T) -> T {
    freeze(server);
    let result = body();
    wake(server);
    result
}

/// Stops the server's process where it stands.
#[track_caller]
pub(crate) fn freeze(server: &Server) {
    kill_process(pid(server), Signal::STOP).unwrap();
    wait_for("the process to stop", || state(server) == "T");
}

/// Has a frozen server go on.
#[track_caller]
pub(crate) fn wake(server: &Server) {
    kill_process(pid(server), Signal::CONT).unwrap();
}

fn pid(server: &Server) -> Pid {
    Pid::from_raw(server.pid().cast_signed()).unwrap()
}

/// The one letter that the system has for the state of the process.
fn state(server: &Server) -> String {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields[..1].into()
}
