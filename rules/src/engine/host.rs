//! What the work of timers needs from the server.

use super::table::Table;
use crate::lock::{Deadline, Fence, Limits, Micros, Millis, Now};
use crate::waiting::{Deferral, LockId, Message, Replicas, RequestId, Settled};

/// How long the work of one turn may last.
pub(super) const TURN: Micros = 2_000;
/// If the server refuses a step, the module tries again after this many ms.
pub(super) const WHILE_REFUSED: Millis = 100;

/// The server between commands.
pub trait Host {
    type Client: Copy;
    fn table(&mut self) -> &mut Table<Self::Client>;
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
    fn alive_with(&mut self, id: &LockId, fence: Fence) -> Option<(u32, Deadline)>;
    /// Unblocks a client. The server then asks for its answer.
    fn unblock(&mut self, client: Self::Client);
    fn replicas(&mut self) -> Replicas;
    /// Asks the replicas how much of the replication stream they have. Returns whether this is possible now.
    fn ask_replicas(&mut self) -> bool;
    /// Publishes a message. Returns whether anybody heard it.
    fn publish(&mut self, message: &Message) -> bool;
}
