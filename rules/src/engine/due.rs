//! The work that timers start: looks at locks, ends of waits, answers. One turn of the event loop stops after 2 ms; the next one goes on
//! with the next kind of work.

use super::table::Table;
use crate::lock::{Micros, Millis, Now};
use crate::waiting::LockId;

/// How long the work of one turn may last.
const TURN: Micros = 2_000;
/// The most blocked clients that one turn answers.
const ANSWERS: usize = 100;
/// If the server refuses a step, the module tries again after this many ms.
const WHILE_REFUSED: Millis = 100;
const KINDS: u8 = 3;

/// The server between commands.
pub trait Host {
    type Client: Copy;
    fn table(&mut self) -> &mut Table<Self::Client>;
    /// How long this turn has lasted.
    fn used(&mut self) -> Micros;
    /// Settles a lock by a command. Returns whether the server has run it.
    fn settle(&mut self, id: &LockId) -> bool;
    /// Unblocks a client. The server then asks for its answer.
    fn unblock(&mut self, client: Self::Client);
}

/// Does the work that is due, as far as one turn allows. Returns how many waits have timed out.
pub fn run_due<H: Host>(host: &mut H, now: Now) -> u64 {
    let (mut timeouts, mut answers, mut without) = (0, 0, 0);
    let mut kind = host.table().next_kind;
    while without < KINDS && (without > 0 || host.used() < TURN) {
        let done = match kind {
            0 => {
                let due = host.table().wakes.first().filter(|(time, _)| *time <= now.millis()).cloned();
                due.iter().for_each(|(_, id)| look(host, id, now));
                due.is_some()
            }
            1 => {
                let ended = end_wait(host, now);
                timeouts += u64::from(ended == Some(true));
                ended.is_some()
            }
            _ => answers < ANSWERS && send_next(host, &mut answers),
        };
        without = if done { 0 } else { without + 1 };
        kind = (kind + 1) % KINDS;
    }
    host.table().next_kind = if without == KINDS { 0 } else { kind };
    timeouts
}

/// Sends answers only, as far as one turn allows.
pub fn send_due<H: Host>(host: &mut H) {
    let mut answers = 0;
    while answers < ANSWERS && send_next(host, &mut answers) && host.used() < TURN {}
}

fn send_next<H: Host>(host: &mut H, answers: &mut usize) -> bool {
    let Some(client) = host.table().next_answer() else { return false };
    *answers += 1;
    host.unblock(client);
    true
}

fn look<H: Host>(host: &mut H, id: &LockId, now: Now) {
    if !host.settle(id) {
        host.table().wake_by(id, now.millis().saturating_add(WHILE_REFUSED));
    }
}

/// Ends the wait whose time was up first. What is due at its lock is done before, because it may still get the lock.
fn end_wait<H: Host>(host: &mut H, now: Now) -> Option<bool> {
    let table = host.table();
    let &(_, request) = table.timeouts.first().filter(|(ends, _)| *ends <= now.millis())?;
    let id = table.waiters.get(&request)?.id.clone();
    if table.get(id.to_ref())?.wake.is_some_and(|wake| wake <= now.millis()) {
        look(host, &id, now);
    }
    Some(host.table().time_out(now.millis()))
}
