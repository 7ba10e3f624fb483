//! Events of the small server and its keys, except the commands for locks.

use super::{AT, Conn, Connection, Lock, Reply, Rules, Server, Writes, at};
use crate::encoding::{self, Effect};
use crate::lock::{Deadline, Grant, Millis, Owner, Value};
use crate::waiting::grace::AWAY;

impl Server {
    /// This replica becomes a primary.
    pub(crate) fn promote(&mut self, now: Millis) {
        self.grace.begin(self.moment(now));
    }

    pub(crate) fn beat(&mut self, now: Millis) {
        self.grace.beat(self.moment(now));
    }

    /// This server comes back after more than a second, in which it was busy or frozen.
    pub(crate) fn come_back(&mut self, busy: bool) {
        let away = if busy { &mut self.busy } else { &mut self.frozen };
        *away += AWAY + 1;
    }

    /// The process does not run for this many milliseconds of the world's time.
    pub(crate) fn freeze(&mut self, time: Millis) {
        (self.busy, self.frozen) = (self.busy - time, self.frozen + time);
    }

    /// A connection closes, and another connection takes its place. The server reports the closed connection only later.
    pub(crate) fn disconnect(&mut self, conn: Conn) {
        self.conns[usize::from(conn)] = Connection::new(self.next_id);
        self.next_id += 1;
    }
}

impl Server {
    /// Returns another server with the contents of this one's file: a replica, or this server after a restart.
    pub(crate) fn out_of_file(&self, conns: Conn, now: Millis) -> Self {
        let mut server = Self::new(conns);
        for (lock, before) in server.locks.iter_mut().zip(&self.locks) {
            let Some((value, until)) = before else { continue };
            let mut grants = encoding::save(value).collect::<Vec<_>>().into_iter();
            let read = encoding::load(|| grants.next().ok_or_else(|| "too short".into()), now);
            *lock = Some((read.unwrap(), *until));
        }
        self.fences.last().into_iter().for_each(|fence| server.fences.observe(fence));
        server
    }

    /// The server's own expiry ends grants whose leases are over.
    pub(crate) fn expire(&mut self, rules: Rules, now: Millis) {
        (0..self.locks.len()).for_each(|lock| self.turn(rules, now).expire(lock));
    }

    /// The database is flushed.
    pub(crate) fn flush(&mut self) {
        self.locks.fill(None);
        self.table.touched_db(Some(AT.db));
    }

    /// This primary becomes a replica. It has already sent away blocked clients.
    pub(crate) fn demote(&mut self) {
        self.table.demoted();
    }

    /// An operator shortens the lease to the end of this millisecond.
    pub(crate) fn cut(&mut self, end: Millis) {
        if let Some((_, deadline)) =
            self.locks[0].as_mut().filter(|(_, deadline)| *deadline > Deadline::At(end))
        {
            *deadline = Deadline::At(end);
            self.effects.push((0, Effect::Lease(*deadline)));
            self.touch(0);
        }
    }

    /// A client overwrites the key with another type, and deletes the key when all waiters have their answers. Returns these answers.
    pub(crate) fn overwrite(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
        self.turn(rules, now).expire(0);
        self.overwrite_one(0);
        self.run_due(rules, now, Writes::Taken)
    }

    /// Another lock takes the place of this one, as by `RENAME`.
    pub(crate) fn replace(&mut self, now: Millis, owner: Owner<'_>, lease: Millis) {
        let fence = self.fences.next(now * 1000);
        let grant = fence.map(|fence| Grant::new(owner, fence, 1, None, now));
        self.locks[0] = grant.map(|grant| (Value::One(grant), Deadline::after(now, lease)));
        self.touch(0);
    }

    /// The hash slot moves to another server, and comes back unchanged. Afterwards nothing is known of the lock except its key. Returns the
    /// answers to waiters.
    pub(crate) fn move_away(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
        let lock = self.locks[0].take();
        self.touch(0);
        let told = self.run_due(rules, now, Writes::Elsewhere);
        self.locks[0] = lock;
        told
    }

    /// A client touches the key, without changing the lock.
    pub(crate) fn touch(&mut self, lock: Lock) {
        self.table.touched(at(lock));
    }

    /// A client gives the key another name.
    pub(crate) fn rename(&mut self, _: Millis, from: Lock, to: Lock) {
        self.table.unlinked(at(from));
        self.locks[to] = self.locks[from].take();
        self.touch(to);
    }

    pub(crate) fn delete(&mut self, lock: Lock) {
        self.table.unlinked(at(lock));
        self.locks[lock] = None;
        self.touch(lock);
    }

    /// A client overwrites the key with another type, and deletes the key when all waiters have been sent away.
    pub(crate) fn overwrite_one(&mut self, lock: Lock) {
        self.locks[lock] = None;
        self.table.overwritten(at(lock));
    }
}
