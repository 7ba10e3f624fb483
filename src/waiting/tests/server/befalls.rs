//! What befalls a server and its keys beside the commands of clients that want a lock.

use super::clients::Connection;
use super::{AT, Conn, Effect, Lock, Reply, Rules, Server, Writes, at};
use crate::lock::{Deadline, Grant, Millis, Owner, Value};
use crate::waiting::grace::AWAY;

impl Server {
    /// A replica becomes a primary.
    pub(crate) fn promote(&mut self, now: Millis) {
        self.grace.begin(self.moment(now));
    }

    /// The server has been away for more than a second: it was busy, or stood still.
    pub(crate) fn come_back(&mut self, busy: bool) {
        let away = if busy { &mut self.busy } else { &mut self.stood_still };
        *away += AWAY + 1;
    }

    /// A connection closes, and another comes in its place; the server tells of that only later.
    pub(crate) fn disconnect(&mut self, conn: Conn) {
        self.conns[usize::from(conn)] = Connection::new(self.next_id);
        self.next_id += 1;
    }

    /// A lease that is over ends the grant: the server's own expiry looks.
    pub(crate) fn expire(&mut self, rules: Rules, now: Millis) {
        self.turn(rules, now).expire();
    }

    /// The database is flushed.
    pub(crate) fn flush(&mut self) {
        self.locks.fill(None);
        self.table.locks.touched_db(Some(AT.db));
    }

    /// A primary becomes a replica. It has sent away those who are blocked.
    pub(crate) fn demote(&mut self) {
        self.table.demoted();
    }

    /// An operator has the lease end with this millisecond.
    pub(crate) fn cut(&mut self, now: Millis) {
        if let Some((_, deadline)) =
            self.locks[0].as_mut().filter(|(_, deadline)| *deadline > Deadline::At(now))
        {
            *deadline = Deadline::At(now);
            self.effects.push(Effect::Lease(*deadline));
            self.table.locks.recheck_by(AT, 0);
        }
    }

    /// A client writes something else over the key, and deletes that when all who waited have got their answer.
    pub(crate) fn overwrite(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
        self.turn(rules, now).expire();
        self.locks[0] = None;
        self.table.overwritten(AT);
        self.run_due(rules, now, Writes::Taken)
    }

    /// Another lock is put in the place of this one, as by `RENAME`.
    pub(crate) fn replace(&mut self, now: Millis, owner: Owner<'_>, lease: Millis) {
        let fence = self.fences.next(now * 1000);
        let grant = fence.map(|fence| Grant::new(owner, fence, 1, None, now));
        self.locks[0] = grant.map(|grant| (Value::One(grant), Deadline::after(now, lease)));
        self.table.locks.touched(AT);
    }

    /// The slot moves to another server, and comes back as it went: nothing is known of it then but the key.
    pub(crate) fn move_away(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
        let lock = self.locks[0].take();
        self.table.locks.look_by(AT, 0);
        let told = self.run_due(rules, now, Writes::Elsewhere);
        self.locks[0] = lock;
        told
    }

    /// A client does something to that key, and the lock is as it was.
    pub(crate) fn touch(&mut self, lock: Lock) {
        self.table.locks.touched(at(lock));
    }

    /// A client deletes that key.
    pub(crate) fn delete(&mut self, lock: Lock) {
        self.locks[lock] = None;
        self.table.locks.touched(at(lock));
    }

    /// A client writes something else over that key, and deletes that when all who waited have been sent away.
    pub(crate) fn overwrite_one(&mut self, lock: Lock) {
        self.locks[lock] = None;
        self.table.overwritten(at(lock));
    }
}
