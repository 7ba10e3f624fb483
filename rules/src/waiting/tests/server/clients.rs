//! Connections and blocked clients, as the different kinds of server treat them.

use super::turn::Turn;
use super::{Blocked, Conn, Connection, Reply, Rules, Server, Writes};
use crate::lock::Millis;
use crate::waiting::RequestId;
use crate::waiting::replication::Offset;

impl Turn<'_> {
    /// Makes the module answer a client that it has unblocked.
    pub(super) fn answer(&mut self, request: RequestId) {
        let blocked = self.server.blocked.get_mut(&request);
        if let Some(blocked) = blocked.filter(|blocked| !blocked.done) {
            (blocked.done, blocked.unblocked) = (true, true);
            self.tell(request);
        }
    }

    fn tell(&mut self, request: RequestId) {
        let Some(reply) = self.reply(request) else { return };
        if let Some(blocked) = self.server.blocked.get_mut(&request) {
            blocked.answer = Some(reply);
        }
    }

    /// Frees a client: afterwards the server has forgotten the client.
    fn free(&mut self, request: RequestId) {
        let Some(blocked) = self.server.blocked.remove(&request) else { return };
        let conn = self.server.conns.iter().find(|conn| conn.id == blocked.id);
        let (open, sends) = (conn.is_some(), conn.is_some_and(|conn| !conn.doomed));
        let arrives = sends && !(blocked.gone && blocked.unblocked && self.rules.keeps_answers);
        self.server.told.extend(blocked.answer.filter(|_| arrives).map(|reply| (blocked.conn, reply)));
        // A real server tells the module no more than this about a client that is gone.
        let keeps_answers = self.rules.keeps_answers;
        self.finished(request, blocked.gone, |unblocked| open && !(unblocked && keeps_answers));
    }

    fn free_done(&mut self) {
        while let Some((&request, _)) = self.server.blocked.iter().find(|(_, blocked)| blocked.done) {
            self.free(request);
        }
    }

    /// Ends a turn of the event loop: the server sends its replies, and closes the connections that it had to close.
    fn end_turn(&mut self) {
        for conn in 0..self.server.conns.len() as Conn {
            if self.server.is_doomed(conn) {
                self.server.close(self.rules, self.now, conn);
            }
        }
        self.server.table.turn_sent();
    }
}

impl Server {
    fn ticket_of(&self, conn: Conn) -> Option<RequestId> {
        let mut blocked = self.blocked.iter();
        blocked.find(|(_, blocked)| blocked.conn == conn && !blocked.gone).map(|(&request, _)| request)
    }

    /// Does the work that is due: looks at locks, ends waits whose time is up, and sends answers. Returns the answers.
    pub(crate) fn run_due(&mut self, rules: Rules, now: Millis, writes: Writes) -> Vec<(Conn, Reply)> {
        let mut turn = self.turn(rules, now);
        turn.writes = writes;
        turn.run_due();
        if !rules.late {
            turn.free_done();
        }
        turn.end_turn();
        self.take_told()
    }

    /// Does the due work, and also work that becomes due meanwhile. Returns the answers.
    pub(crate) fn run_all_due(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
        let mut told = Vec::new();
        for _ in 0..1_000 {
            self.send_effects();
            told.extend(self.run_due(rules, now, Writes::Taken));
            self.send_effects();
            self.check();
            if self.next_due().is_none_or(|at| at > now) {
                return told;
            }
        }
        panic!("kept busy: due at {:?}, now {now}", self.next_due());
    }

    /// Sends the effects to replicas, which acknowledge them at once if `hears` is true.
    fn send_effects(&mut self) {
        self.written += std::mem::take(&mut self.effects).len() as Offset;
        if self.hears {
            self.acked = self.written;
        }
    }

    /// Sends answers before any other due work is done, as the separate timer does. Returns the answers.
    pub(crate) fn answer(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
        let mut turn = self.turn(rules, now);
        turn.send_due();
        if !rules.late {
            turn.free_done();
        }
        turn.end_turn();
        self.take_told()
    }

    /// Frees the clients that the server is done with. Returns their answers.
    pub(crate) fn free_done(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
        let mut turn = self.turn(rules, now);
        turn.free_done();
        turn.end_turn();
        self.take_told()
    }

    fn take_told(&mut self) -> Vec<(Conn, Reply)> {
        std::mem::take(&mut self.told)
    }

    /// A client goes away, without the server's knowing it yet.
    pub(crate) fn vanish(&mut self, conn: Conn) {
        self.conns[usize::from(conn)].vanished = true;
    }

    pub(crate) fn has_vanished(&self, conn: Conn) -> bool {
        self.conns[usize::from(conn)].vanished
    }

    /// The server has to close a connection, and will do so at the end of this turn.
    pub(crate) fn doom(&mut self, conn: Conn) {
        self.conns[usize::from(conn)].doomed = true;
    }

    pub(crate) fn is_doomed(&self, conn: Conn) -> bool {
        self.conns[usize::from(conn)].doomed
    }

    /// A connection closes, and another connection takes its place.
    pub(crate) fn close(&mut self, rules: Rules, now: Millis, conn: Conn) {
        let request = self.ticket_of(conn);
        let old = std::mem::replace(&mut self.conns[usize::from(conn)], Connection::new(self.next_id));
        self.next_id += 1;
        self.turn(rules, now).closed(old.id);
        if let Some(request) = request {
            self.send_away(rules, now, request);
        }
    }

    /// Ends a request: its client gets nothing more from the module.
    fn send_away(&mut self, rules: Rules, now: Millis, request: RequestId) {
        let Some(blocked) = self.blocked.get_mut(&request) else { return };
        blocked.gone = true;
        // The server reports a client that has been answered only once, when it frees the client.
        if !std::mem::replace(&mut blocked.done, true) {
            self.turn(rules, now).depart(request);
        }
        if !rules.late {
            self.turn(rules, now).free(request);
        }
    }

    /// Runs `CLIENT UNBLOCK`, with or without `ERROR`. Returns the answers to clients.
    pub(crate) fn unblock(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        error: bool,
    ) -> Vec<(Conn, Reply)> {
        let Some(request) = self.ticket_of(conn) else { return Vec::new() };
        let Blocked { done, unblocked, .. } = self.blocked[&request];
        // On Valkey, a client whose answer is kept gets an error instead.
        if error && (!done || unblocked && rules.keeps_answers) {
            self.told.push((conn, Reply::Unblocked));
            self.send_away(rules, now, request);
        } else if error {
            // The client still gets its answer. (These servers also send the error, which is a fault of theirs.)
            self.blocked.entry(request).and_modify(|blocked| blocked.gone = true);
        } else if !done {
            self.turn(rules, now).tell(request);
            self.blocked.entry(request).and_modify(|blocked| blocked.done = true);
            if !rules.late {
                self.turn(rules, now).free(request);
            }
        }
        if !self.is_doomed(conn) {
            self.table.turn_sent();
        }
        self.take_told()
    }
}
