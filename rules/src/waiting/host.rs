//! What the rules ask the server between steps: for the work of timers, for replies to blocked clients, for `DETECT` and `INFO`.

use std::ops::DerefMut;

use super::grants::Holder;
use super::lock_id::LockId;
use super::message::Message;
use super::queue::RequestId;
use super::replication::Offset;
use super::table::Table;
use crate::lock::{Deadline, Fence, Limits, Micros, Millis, Now};

/// How much of the replication stream a server has written, and how much of it each replica has acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Replicas {
    /// The number of bytes that this server has written.
    pub written: Offset,
    /// The last offset, in bytes, that each replica has acknowledged.
    pub replicas: Vec<Offset>,
}

/// Says whether work that is due has to wait, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// The work does not have to wait.
    None,
    /// This server is a replica, and its primary does the work.
    Replica,
    /// The data set must not change until this time, in ms since 1970.
    Until(Millis),
}

/// The result when the server settles locks by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Done,
    /// The lock's hash slot is moving to this server. Until it has moved, clients can reach the lock on this server only with `ASKING`.
    Arriving,
    /// The lock is in a hash slot that another server serves.
    Elsewhere,
    /// The server refused the write.
    Refused,
}

/// How long the work of one turn may last.
pub(super) const TURN: Micros = 2_000;
/// If the server refuses a step, the module tries again after this many ms.
pub(super) const WHILE_REFUSED: Millis = 100;

/// The server between commands.
pub trait Host {
    type Client: Copy;
    /// Lends the table, which has to be given back before the server is called.
    fn table(&mut self) -> impl DerefMut<Target = Table<Self::Client>>;
    fn limits(&mut self) -> Limits;
    /// How long this turn has lasted.
    fn used(&mut self) -> Micros;
    /// Why work that is due has to wait now, if it has to.
    fn deferral(&mut self, now: Now) -> Deferral;
    /// Settles a lock, or all locks of a waiter, by a command.
    fn settle(&mut self, waiter: Option<RequestId>, ids: &[LockId]) -> Settled;
    /// Settles a lock whose hash slot is still moving to this server, without a command, which the server would redirect.
    fn settle_arriving(&mut self, id: &LockId);
    /// The holds and the end of the lease of a grant, if it has not ended.
    fn alive_with(&mut self, id: &LockId, fence: Fence, now: Millis) -> Option<(u32, Deadline)>;
    /// At most `most` holders of a lock, the oldest grants first.
    fn holders(&mut self, id: &LockId, now: Millis, most: usize) -> Vec<Holder>;
    /// Unblocks a client. The server then asks for its answer.
    fn unblock(&mut self, client: Self::Client);
    fn replicas(&mut self) -> Replicas;
    /// Asks the replicas how much of the replication stream they have. Returns whether this is possible now.
    fn ask_replicas(&mut self) -> bool;
    /// Publishes a message. Returns whether anybody heard it.
    fn publish(&mut self, message: &Message) -> bool;
}

/// Whether this turn has used up its time or its budget.
pub(super) fn is_turn_over<H: Host>(host: &mut H) -> bool {
    host.table().budget.is_turn_over() || host.used() >= TURN
}
