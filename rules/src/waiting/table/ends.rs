//! The ends of waits and grants: a waiter leaves its queues, a grant is over, or a waiter is gone, and its hold (its acquire within a
//! grant) has to be taken back.

use super::grant_record::{GrantRecord, Listener};
use super::outgoing::{Message, MessageKind, Notice};
use super::queue::RequestId;
use super::waiter::{Answer, Phase, RequestedLocks};
use super::{AT_A_TIME, LockEntry, LockId, LockRef, WaitTable};
use crate::lock::{Deadline, Fence, Millis};

impl<C: Copy> WaitTable<C> {
    /// Ends a wait without a grant: takes the waiter out of its queues, and moves it to the phase `next`. If the waiter is in no queue,
    /// does nothing and returns `false`.
    pub(super) fn leave(&mut self, request: RequestId, next: Phase) -> bool {
        let is_queued = self.waiters.get_queued(request).is_some();
        if is_queued {
            self.waits().go_on(request, next);
            self.left(request, next);
        }
        is_queued
    }

    /// Takes a waiter out of its queues. The waiter must already have moved on to the phase `next`. No other code takes waiters out of
    /// their queues.
    pub(super) fn left(&mut self, request: RequestId, next: Phase) {
        let Self { waiters, locks, observers, .. } = self;
        observers.ungranted += u64::from(!next.is_granted());
        let Some(waiter) = waiters.get(request) else { return };
        let (hold, several) = (waiter.hold(request), waiter.locks.are_several());
        for lock in waiter.locks.all() {
            let at = lock.id.to_ref();
            let granted = lock.fence().filter(|_| next.is_granted());
            let head = locks.leave(at, &waiter.ask.owner, hold, granted).and_then(|head| waiters.get(head));
            // There may be room for the waiters behind the waiter that left. Or, if that waiter waited for several locks, this lock may
            // have been free, and only reserved for it.
            if head.is_some_and(|head| several || !head.ask.room.is_exclusive()) {
                locks.look_by(at, 0);
            }
        }
    }

    /// Takes a waiter out of its queues, and has the waiter told this answer.
    pub(crate) fn answer(&mut self, request: RequestId, answer: Answer) {
        if self.leave(request, Phase::Answered(answer)) {
            self.outgoing.push_back(Notice::Waiter(request));
        }
    }

    /// Notes that a waiter can't be told anything any more. Takes the waiter out of its queues. If it has already been granted locks, its
    /// holds are taken back (see `mark_undeliverable`).
    pub fn depart(&mut self, request: RequestId) {
        self.leave(request, Phase::Left);
        self.mark_undeliverable(request);
    }

    /// Notes that a waiter can't be told its answer. If the waiter has been granted locks, timers take its holds back, unless other waiters
    /// share them.
    pub(super) fn mark_undeliverable(&mut self, request: RequestId) {
        let Some(waiter) = self.waiters.get(request) else { return };
        let phase = waiter.phase;
        let (locks, client, told) = (waiter.locks.clone(), waiter.client_id, matches!(phase, Phase::Told(_)));
        self.waits().go_on(request, Phase::Left);
        if !phase.is_granted() {
            return;
        }
        for lock in locks.all() {
            let Some(granted) = lock.fence() else { continue };
            let at = lock.id.to_ref();
            // The waiter's answer did not arrive, so the session that began with the answer ends. If the waiter's connection already kept
            // the grant alive before, its session stays.
            let entry = self.locks.lock(at);
            let keeps = entry.grants.session(granted).is_some_and(|session| session.client == client);
            if keeps && told && entry.grants.hold(granted, request).is_some_and(|hold| hold.binds) {
                self.sessions().end(at, granted);
            }
            self.locks.look_by(at, 0);
            self.locks.change(at, |entry| entry.lose_pending(granted, request));
        }
    }

    /// Drops all that the table knows of a waiter that is in no queue.
    pub(super) fn drop_waiter(&mut self, request: RequestId) {
        let Some(waiter) = self.waits().remove(request) else { return };
        debug_assert!(waiter.phase != Phase::Queued);
        if !waiter.phase.is_granted() {
            return;
        }
        for lock in waiter.locks.all() {
            let Some(fence) = lock.fence() else { continue };
            let at = lock.id.to_ref();
            let claimed = self.locks.change(at, |entry| {
                entry.remove_pending(fence, request).is_some_and(|hold| hold.to_claim) && entry.recheck
            });
            if claimed == Some(true) {
                self.locks.look_by(at, 0);
            }
        }
    }

    /// Gives up a place. The module takes back the holds that the place was granted, but a grant goes on if its owner has other holds.
    /// Returns for how many locks the place was.
    pub(crate) fn give_up(&mut self, request: RequestId) -> u32 {
        let Some(waiter) = self.waiters.get(request) else { return 0 };
        let locks = waiter.locks.all().len() as u32;
        let granted = waiter.phase.is_granted().then(|| waiter.locks.clone());
        self.depart(request);
        self.drop_waiter(request);
        for lock in granted.iter().flat_map(RequestedLocks::all) {
            if let Some(fence) = lock.fence() {
                self.locks.change(lock.id.to_ref(), |entry| {
                    if entry.grants.unclaimed(fence).next().is_none() {
                        entry.grants.listener_knows(fence);
                    }
                });
            }
        }
        locks
    }

    /// Drops what the table knows of a grant that has ended. If there is a `kind`, a holder that listens gets a message of this kind.
    /// Places need not claim the grant any more, and a place that has nothing else to claim is dropped.
    pub(crate) fn end_grant(
        &mut self,
        at: LockRef<'_>,
        fence: Fence,
        kind: Option<fn(Fence) -> MessageKind>,
    ) {
        let Some((id, entry)) = self.locks.entries.get_key_mut(at) else { return };
        if let Some(record) = entry.end_grant(fence) {
            let id = id.clone();
            self.grant_ended(&id, record, kind);
        }
    }

    /// Ends everything that depends on a grant that has ended. This function is not inlined, because each handover ends a grant, but
    /// nothing depends on most grants.
    #[inline(never)]
    fn grant_ended(&mut self, id: &LockId, record: GrantRecord, kind: Option<fn(Fence) -> MessageKind>) {
        let at = id.to_ref();
        let recheck = self.locks.change(at, |entry| entry.recheck).unwrap_or_default();
        self.sessions().ended(id, &record);
        let (mut was_to_claim, mut was_told) = (false, false);
        for hold in record.pending.iter() {
            was_to_claim |= hold.to_claim;
            if self.is_untold(hold.request) {
                self.untell(hold.request);
            } else if hold.to_claim {
                was_told = true;
                let has_nothing = self.waits().edit(hold.request, |waiter| {
                    waiter.locks.at_mut(at).into_iter().for_each(|lock| lock.got = None);
                    waiter.locks.all().iter().all(|lock| lock.got.is_none())
                });
                debug_assert!(has_nothing.is_some(), "{hold:?}");
                if has_nothing == Some(true) {
                    self.waits().go_on(hold.request, Phase::Answered(Answer::Gone));
                    self.drop_waiter(hold.request);
                }
            }
        }
        if was_to_claim && recheck {
            self.locks.look_by(at, 0);
        }
        if let (Some(listener), Some(kind)) = (record.listener, kind)
            && (listener.claimed || was_told || !was_to_claim)
        {
            let Listener { owner, channel, .. } = *listener;
            self.outgoing.push_back(Notice::Message(Message { channel, kind: kind(record.fence), owner }));
        }
    }

    /// If a waiter is still to be told of its grant or extension, it is told that its lease ends at `until` at the latest.
    pub(crate) fn shorten_answer(&mut self, request: RequestId, until: Deadline) {
        self.waits().edit(request, |waiter| {
            let is_place = waiter.channel().is_some();
            let (Phase::Unconfirmed(answer) | Phase::Answered(answer)) = &mut waiter.phase else { return };
            let (Answer::Granted { until: told } | Answer::Extended { until: told }) = answer else { return };
            // A `start` message tells the owner `ask.lease`.
            if is_place && let (Deadline::At(then), Deadline::At(last)) = (*told, until) {
                waiter.ask.lease -= then.saturating_sub(last).clamp(0, waiter.ask.lease);
            }
            *told = until.min(*told);
        });
    }

    /// The lease of this grant has a new end. Waiters that are still to be told of the grant are told of no later end. Returns how many
    /// holds of the grant are pending.
    pub(crate) fn shorten_answers(&mut self, at: LockRef<'_>, fence: Fence, until: Deadline) -> usize {
        let pending: Vec<RequestId> =
            self.locks.lock(at).grants.pending(fence).map(|hold| hold.request).collect();
        pending.iter().for_each(|request| self.shorten_answer(*request, until));
        pending.len()
    }

    /// Something other than the module removes the value of a lock at the time `now`, perhaps to move it to another key (`RENAME`, `MOVE`).
    /// Notes the holds of which no owner has been told. If the grants move, `touched` has these holds taken back at the new key: otherwise
    /// they would stay there, although nobody ever hears of them. Returns whether the lock has an entry. This pays into no budget: a hold is
    /// looked at once for each value that the server removes, and has cost the server, which blocked its client, much more.
    pub fn unlinked(&mut self, at: LockRef<'_>, now: Millis) -> bool {
        let untold = |record: &GrantRecord| {
            let untold = record.pending.iter().filter(|hold| hold.own && self.is_untold(hold.request));
            (record.fence, record.undeliverable + untold.count() as u32)
        };
        let strays = self.locks.lock(at).grants.iter().map(untold).filter(|(_, holds)| *holds > 0);
        self.strays = Some((self.locks.id(at), strays.collect()));
        self.locks.recheck_by(at, now)
    }

    fn is_untold(&self, request: RequestId) -> bool {
        matches!(self.waiters.phase(request), Some(Phase::Answered(_) | Phase::Unconfirmed(_)))
    }

    /// A grant or extension of which this waiter has not been told yet has ended, or moves. Takes back the waiter's holds, and has the
    /// waiter told that its grant has ended, even if the grant moves back before then.
    pub(crate) fn untell(&mut self, request: RequestId) {
        let Some(waiter) = self.waiters.get(request) else { return };
        let phase = waiter.phase;
        let (Phase::Unconfirmed(answer) | Phase::Answered(answer)) = phase else { return };
        let answer = match answer {
            Answer::Granted { .. } if waiter.confirm.is_some() || waiter.channel().is_some() => Answer::Gone,
            Answer::Granted { .. } => Answer::Granted { until: Deadline::At(0) },
            Answer::Extended { .. } => Answer::NotHeld,
            _ => return,
        };
        let locks = waiter.locks.clone();
        self.mark_undeliverable(request);
        self.waits().go_on(request, Phase::Answered(answer));
        if let Phase::Unconfirmed(_) = phase {
            self.outgoing.push_back(Notice::Waiter(request));
        }
        // A place hears of no loss of what it did not hear that it had.
        for lock in locks.all() {
            let Some(fence) = lock.fence() else { continue };
            let unknown = |record: &mut GrantRecord| {
                let none_to_claim = record.pending.iter().all(|hold| !hold.to_claim);
                record.listener.take_if(|listener| none_to_claim && !listener.claimed);
            };
            self.locks.change(lock.id.to_ref(), |entry| entry.grants.change(fence, unknown));
        }
    }

    /// Notes that the key of a lock was changed. Returns whether there may be something to do.
    pub fn touched(&mut self, at: LockRef<'_>) -> bool {
        if let Some((from, strays)) = self.strays.take_if(|(from, _)| !from.is(at)) {
            for (fence, mut holds) in strays {
                if let Some(record) = self.locks.lock(from.to_ref()).grants.get(fence) {
                    let pending = record.pending.iter().map(|hold| hold.request);
                    let untold: Vec<RequestId> = pending.filter(|request| self.is_untold(*request)).collect();
                    untold.into_iter().for_each(|request| self.untell(request));
                    let taken = self.locks.change(from.to_ref(), |entry| entry.take_undeliverable_of(fence));
                    holds = taken.flatten().unwrap_or(0);
                }
                if holds > 0 {
                    self.locks.take_back(at, fence, holds);
                }
            }
        }
        self.locks.touched(at)
    }

    /// The server has swapped two databases. Has the holds of which no owner has been told taken back in the other database (see
    /// `unlinked`), and all locks of these databases brought up to date.
    pub fn swapped(&mut self, first: i32, second: i32) {
        if first == second {
            return;
        }
        let moves = |id: &LockId| id.db == first || id.db == second;
        let answers = self.outgoing.iter().filter_map(Notice::waiter).chain(self.replication.answers());
        let untold = answers.filter(|request| {
            let waiter = self.waiters.get(*request).filter(|_| self.is_untold(*request));
            waiter.is_some_and(|waiter| waiter.locks.all().iter().any(|lock| moves(&lock.id)))
        });
        let untold: Vec<RequestId> = untold.collect();
        untold.into_iter().for_each(|request| self.untell(request));
        let mut strays: Vec<(LockId, Fence, u32)> = Vec::new();
        let due: Vec<LockId> = self.locks.timers.due_at_once().filter(|id| moves(id)).cloned().collect();
        for id in due {
            let to = if id.db == first { second } else { first };
            while let Some((fence, holds)) =
                self.locks.change(id.to_ref(), LockEntry::take_undeliverable).flatten()
            {
                strays.push((LockId { db: to, ..id.clone() }, fence, holds));
            }
        }
        for (id, fence, holds) in strays {
            self.locks.take_back(id.to_ref(), fence, holds);
        }
        self.locks.touched_db(Some(first));
        self.locks.touched_db(Some(second));
    }

    /// Drops what the table knows of at most `most` grants of a lock, and returns their number. `kind` is the message to the holders.
    /// `elsewhere`: the lock goes on, at another server.
    pub(super) fn end_grants(
        &mut self,
        at: LockRef<'_>,
        most: usize,
        kind: fn(Fence) -> MessageKind,
        elsewhere: bool,
    ) -> usize {
        for ended in 0..most {
            let Some(fence) = self.locks.lock(at).next_known(None) else { return ended };
            if elsewhere {
                self.leave_blocked(at, fence);
            }
            // If the table keeps a copy of the grant, to restore it after a freeze of this server, this copy is dropped, too.
            self.locks.change(at, |entry| entry.grants.change(fence, |record| record.expired = None));
            self.end_grant(at, fence, Some(kind));
        }
        most
    }

    /// The lock now belongs to another server. This server itself sends away the blocked clients that are still to be told of this grant.
    /// A client whose answer is already on its way is told a lease of 0, unless replicas have confirmed the answer.
    fn leave_blocked(&mut self, at: LockRef<'_>, fence: Fence) {
        let pending = self.locks.lock(at).grants.pending(fence).filter(|hold| !hold.to_claim);
        let blocked: Vec<RequestId> = pending.map(|hold| hold.request).collect();
        for request in blocked {
            if self.waiters.get(request).is_some_and(|waiter| waiter.confirm.is_none()) {
                self.shorten_answer(request, Deadline::At(0));
            }
            self.locks.change(at, |entry| entry.remove_pending(fence, request));
        }
    }

    /// Sends away the places and the listening holders of a lock that now belongs to another server, and drops what the table knows of its
    /// grants. Otherwise the end of a session, or of a waiter that was not told of its hold, could end a grant that moves back later.
    /// Blocked clients stay, because the server itself sends them away. Returns how many waiters and holders were sent away: `AT_A_TIME` if
    /// there may be more.
    pub(crate) fn send_away(&mut self, at: LockRef<'_>) -> usize {
        let places = self.locks.lock(at).queue.iter().filter(|request| self.waiters.is_place(*request));
        let queued: Vec<RequestId> = places.take(AT_A_TIME).collect();
        for request in &queued {
            self.answer(*request, Answer::Gone);
        }
        queued.len() + self.end_grants(at, AT_A_TIME - queued.len(), |_| MessageKind::Gone, true)
    }

    /// Drops what this server knew of a lock as a primary, before its demotion. The module tells places and listening holders. The server
    /// itself sends away blocked clients, and no session renews its lease any more. Returns how many waiters and holders were sent away:
    /// `AT_A_TIME` if there may be more.
    pub(crate) fn demoted_at(&mut self, id: &LockId) -> usize {
        let sent_away = self.send_away(id.to_ref());
        self.locks.cancel_timers(id.to_ref());
        sent_away
    }
}
