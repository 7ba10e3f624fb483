//! The small server of `waiting`, around these rules.

#[path = "../../../waiting/tests/server/clients.rs"]
mod clients;
mod commands;
mod turn;
mod views;

use crate::engine::Table;
use crate::waiting::RequestId;
use crate::waiting::table::Offset;
pub(crate) use crate::waiting::tests::server::{
    AT, Blocked, Conn, Connection, KEYS, Lock, Queued, QueuedRequest, Reply, Rules, ServerOf, Writes, at,
    time,
};

pub(crate) type Server = ServerOf<Table<RequestId>>;

impl Server {
    pub(crate) fn new(conns: Conn) -> Self {
        Self::with(Table::new(), conns)
    }

    pub(crate) fn renumber(&mut self, cut_off: bool) {
        let (known, most) = (self.acked - 1, if cut_off { 2 } else { Offset::MAX });
        self.table.replication.shift_offsets(known, most);
        (self.written, self.acked) = ((self.written - known).min(most), 1);
        let requests = self.table.renumber_requests();
        let clients = self.renumber_blocked(&requests, self.table.clients());
        self.table.renumber_clients(&clients);
    }
}
