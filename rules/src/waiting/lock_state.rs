//! All that is known of one lock between steps, beyond what its key says: its queue, and a record of each grant of which there is more to
//! know.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::num::NonZero;

use smallvec::SmallVec;

use super::message::Channel;
use super::queue::{Queue, RequestId};
use super::replication::{Confirm, Moved};
use crate::lock::{Deadline, Fence, Held, Millis, Owner};

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub struct LockState {
    pub(super) queue: Queue,
    /// The grant whose owner waits for an upgrade, and the waiters for this upgrade, which go ahead of the queue.
    pub(super) upgrade: Option<Box<(Fence, BTreeSet<RequestId>)>>,
    /// In the order of fences. Only `change_at` changes records, except that `news` notes which holders are told.
    records: VecDeque<Record>,
    /// When something is due at each grant, the earliest first.
    due: VecDeque<(Millis, Fence)>,
    /// How many holders get messages about their grants.
    pub(super) listening: u32,
    /// Whether a holder has to be told if somebody waits.
    is_news: bool,
    /// Whether a holder has been told that somebody waits.
    is_told: bool,
    /// Whether something other than the module may have changed the key.
    pub(super) recheck: bool,
    /// Whether a place can't re-enter before its owner has claimed others of its holds (see `may_reenter`).
    pub(super) put_off: bool,
    /// When a timer has to look at the lock.
    pub(super) wake: Option<Millis>,
    /// When a timer has to look at the lock for a session.
    pub(super) renew: Option<NonZero<Millis>>,
    /// `None` while nobody waits.
    pub(super) held_since: HeldSince,
}

/// What is known of one grant.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Record {
    pub(super) fence: Fence,
    /// The holds of which their clients may not know, in order of arrival.
    pub(super) pending: SmallVec<[UntoldHold; 1]>,
    /// How many holds have to be taken back, because their clients went away before they were told.
    pub(super) to_take_back: u32,
    /// The connection that keeps the grant alive. Only `Table::set_session` changes which one it is.
    pub(super) session: Option<Session>,
    /// The last renewal of the session, while replicas have not confirmed it, and when it is too late.
    pub(super) renewal: Option<Box<(Moved, Millis)>>,
    /// The holder, if it gets messages about the grant.
    pub(super) listener: Option<Box<Listener>>,
}

/// A hold of which its client may not know.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct UntoldHold {
    pub(super) request: RequestId,
    /// Whether the hold is taken back if the client goes away. With `ONCE`, the hold may be another client's of the owner, and stays.
    pub(super) revocable: bool,
    /// Whether the client's connection keeps the grant alive once the client is told. Never that of a place, whose session begins with the
    /// claim.
    pub(super) binds: bool,
    /// Whether the owner of a place has to claim the hold.
    pub(super) to_claim: bool,
}

/// A connection keeps a grant alive.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Session {
    /// The id of the connection.
    pub(super) connection: u64,
    pub(super) lease: Millis,
    /// When the session renews the lease: when a third of the lease has passed.
    pub(super) renew_at: Millis,
    /// When a timer looks at the lock for the session: `renew_at`; earlier if the lease got shorter; at once (0) if the connection closed.
    pub(super) wake_at: Millis,
    /// Whether the connection has closed.
    pub(super) closed: bool,
    /// How replicas have to confirm renewals (`SYNC`).
    pub(super) confirm: Option<Confirm>,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Listener {
    pub(super) owner: Owner<'static>,
    pub(super) channel: Channel,
    /// Whether the holder knows of its grant, and so of what to release when somebody waits.
    pub(super) knows: bool,
    pub(super) told: WaiterNews,
}

/// Whether a holder has been told that somebody waits, since the queue was last empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum WaiterNews {
    No,
    Soon,
    Yes,
}

impl Listener {
    fn is_to_be_told(&self) -> bool {
        self.knows && self.channel.wanted && self.told == WaiterNews::No
    }
}

impl Record {
    fn new(fence: Fence) -> Self {
        let (pending, to_take_back, session, renewal, listener) = (SmallVec::new(), 0, None, None, None);
        Self { fence, pending, to_take_back, session, renewal, listener }
    }

    fn is_empty(&self) -> bool {
        let is_kept = self.session.is_some() || self.renewal.is_some();
        self.pending.is_empty() && self.to_take_back == 0 && !is_kept && self.listener.is_none()
    }

    pub(super) fn due(&self) -> Option<Millis> {
        let wake_at = self.session.map(|session| session.wake_at);
        let undo_at = self.renewal.as_ref().map(|renewal| renewal.1);
        if self.to_take_back > 0 { Some(0) } else { wake_at.into_iter().chain(undo_at).min() }
    }

    pub(super) fn hold(&self, request: RequestId) -> Option<&UntoldHold> {
        self.pending.iter().find(|hold| hold.request == request)
    }

    pub(super) fn remove(&mut self, request: RequestId) -> Option<UntoldHold> {
        let place = self.pending.iter().position(|hold| hold.request == request)?;
        Some(self.pending.remove(place))
    }

    /// The client of a hold has gone away. If another client shares the hold, that client has it now. If not, it is to be taken back.
    pub(super) fn revoke(&mut self, request: RequestId) {
        let Some(gone) = self.remove(request) else { return };
        if gone.revocable {
            let mut later = self.pending.iter_mut().filter(|hold| !hold.revocable && hold.request > request);
            match later.next() {
                Some(heir) => heir.revocable = true,
                None => self.to_take_back += 1,
            }
        }
        if let Some(session) = self.session.as_mut().filter(|session| session.closed && gone.binds) {
            session.wake_at = 0;
        }
    }

    /// The owner knows of this grant. So its holds stay even if clients that are still to be told of them go away.
    pub(super) fn share(&mut self) {
        self.pending.iter_mut().filter(|hold| !hold.to_claim).for_each(|hold| hold.revocable = false);
    }

    /// The holder knows of its grant.
    pub(super) fn note_known(&mut self) {
        self.listener.iter_mut().for_each(|listener| listener.knows = true);
    }

    pub(super) fn claims(&self) -> usize {
        self.pending.iter().filter(|hold| hold.to_claim).count()
    }
}

impl LockState {
    pub(super) const fn new() -> Self {
        Self {
            queue: Queue::new(),
            upgrade: None,
            records: VecDeque::new(),
            due: VecDeque::new(),
            listening: 0,
            is_news: false,
            is_told: false,
            recheck: false,
            put_off: false,
            wake: None,
            renew: None,
            held_since: HeldSince(None),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.records.is_empty()
    }

    /// The first waiter. Waiters for an upgrade go ahead.
    pub fn head(&self) -> Option<RequestId> {
        let first = self.upgrade.as_deref().and_then(|(_, requests)| requests.first().copied());
        first.or_else(|| self.queue.head())
    }

    /// The waiters in the order in which they are served.
    pub(super) fn in_order(&self) -> impl Iterator<Item = RequestId> {
        let ahead = self.upgrade.as_deref().map(|(_, requests)| requests);
        let behind =
            self.queue.iter().filter(move |request| ahead.is_none_or(|ahead| !ahead.contains(request)));
        ahead.into_iter().flatten().copied().chain(behind)
    }

    pub(super) fn leave(&mut self, request: RequestId, owner: &Owner<'static>) {
        self.queue.leave(request, owner);
        self.withdraw_upgrade(request);
    }

    pub(super) fn upgrade_first(&mut self, fence: Fence, request: RequestId) {
        self.upgrade.get_or_insert_with(|| Box::new((fence, [].into()))).1.insert(request);
    }

    pub(super) fn withdraw_upgrade(&mut self, request: RequestId) {
        self.upgrade.take_if(|upgrade| upgrade.1.remove(&request) && upgrade.1.is_empty());
    }

    pub(super) fn is_upgraded_by_another(&self, fence: Fence) -> bool {
        self.upgrade.as_ref().is_some_and(|upgrade| upgrade.0 != fence)
    }

    fn position(&self, fence: Fence) -> Result<usize, usize> {
        self.records.binary_search_by_key(&fence, |record| record.fence)
    }

    pub(super) fn record(&self, fence: Fence) -> Option<&Record> {
        self.records.get(self.position(fence).ok()?)
    }

    pub(super) fn records(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.records.iter()
    }

    /// Changes what is known of a grant. Does nothing if nothing is known.
    pub(super) fn change<R>(&mut self, fence: Fence, body: impl FnOnce(&mut Record) -> R) -> Option<R> {
        let number = self.position(fence).ok()?;
        self.change_at(number, body)
    }

    /// Changes what is known of a grant, even if nothing has been known of it so far.
    pub(super) fn change_or_add<R>(
        &mut self,
        fence: Fence,
        body: impl FnOnce(&mut Record) -> R,
    ) -> Option<R> {
        let number = self.position(fence).unwrap_or_else(|next| {
            // Usually, a lock has a record of one grant only, so the first one gets no room for more beside it.
            self.records.reserve_exact(usize::from(self.records.is_empty()));
            self.records.insert(next, Record::new(fence));
            next
        });
        self.change_at(number, body)
    }

    fn change_at<R>(&mut self, number: usize, body: impl FnOnce(&mut Record) -> R) -> Option<R> {
        let record = self.records.get_mut(number)?;
        let (fence, due, listened) = (record.fence, record.due(), record.listener.is_some());
        let claims = if self.put_off { record.claims() } else { 0 };
        let result = body(record);
        if record.claims() < claims {
            (self.recheck, self.put_off) = (true, false);
        }
        if record.due() != due {
            // `due` stays in order. Usually, the first entry becomes the last, so few entries move.
            let place = due.and_then(|due| self.due.binary_search(&(due, fence)).ok());
            place.map(|place| self.due.remove(place));
            if let Some(row) = record.due().map(|due| (due, fence)) {
                self.due.reserve_exact(usize::from(self.due.is_empty()));
                let place = self.due.partition_point(|other| *other < row);
                self.due.insert(place, row);
            }
        }
        self.listening = self.listening + u32::from(record.listener.is_some()) - u32::from(listened);
        self.is_news |= record.listener.as_ref().is_some_and(|listener| listener.is_to_be_told());
        self.is_told |= record.listener.as_ref().is_some_and(|listener| listener.told == WaiterNews::Yes);
        if record.is_empty() {
            self.records.remove(number);
        }
        Some(result)
    }

    /// Removes and returns the record of a grant that has ended. Waiters for its upgrade no longer go ahead of the queue.
    pub(super) fn take(&mut self, fence: Fence) -> Option<Record> {
        self.upgrade.take_if(|upgrade| upgrade.0 == fence);
        self.change(fence, |record| std::mem::replace(record, Record::new(fence)))
    }

    /// Whether replicas have to confirm the renewals of a grant's session.
    pub(super) fn is_synced(&self, fence: Fence) -> bool {
        let session = self.record(fence).and_then(|record| record.session);
        session.is_some_and(|session| session.confirm.is_some())
    }

    /// A grant with the lease on which its holder can rely: without a renewal that replicas have not confirmed, unless somebody has changed
    /// the lease since.
    pub fn relied_on<'a>(&self, held: Held<'a>, now: Millis) -> Option<Held<'a>> {
        let renewal = self.record(held.grant.fence()).and_then(|record| record.renewal.as_deref());
        match renewal.filter(|(moved, _)| moved.to == held.deadline) {
            Some((Moved { from, .. }, _)) => {
                (*from >= Deadline::At(now)).then_some(Held { deadline: *from, ..held })
            }
            None => Some(held),
        }
    }

    /// The next time when there is something to do about a grant, and the grant's fence.
    pub(super) fn first_due(&self) -> Option<(Millis, Fence)> {
        self.due.front().copied()
    }

    /// When a timer has to look at the lock, other than for a session.
    pub(super) fn other_wake(&self) -> Option<Millis> {
        self.wake.filter(|wake| self.renew.is_none_or(|renew| renew.get() != *wake))
    }

    /// Whether `news` has anything to note: holders to be told that somebody waits, or, when nobody waits, to be told again next time.
    pub(super) fn has_news(&self) -> bool {
        if self.queue.is_empty() { self.is_told } else { self.is_news }
    }

    /// Notes which holders have to be told that somebody waits: all of them when the first waiter comes, and later each holder that asks
    /// again. Returns their grants.
    pub(super) fn news(&mut self) -> Vec<Fence> {
        let (waits, mut news) = (!self.queue.is_empty(), Vec::new());
        let listeners =
            self.records.iter_mut().filter_map(|record| Some((record.fence, record.listener.as_mut()?)));
        for (fence, listener) in listeners {
            if waits && listener.is_to_be_told() {
                listener.told = WaiterNews::Soon;
                news.push(fence);
            } else if !waits && listener.told == WaiterNews::Yes {
                listener.told = WaiterNews::No;
            }
        }
        (self.is_news, self.is_told) = (!waits, self.is_told && waits);
        news
    }
}

/// A time in ms before which none of the present grants of a lock with waiters was made.
///
/// It is noted when the first waiter comes. A handover does not change it, as later grants are younger. A query goes through locks in the
/// order of these times and corrects them, until it finds one that is still right: no lock behind it can have been held longer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldSince(pub(super) Option<NonZero<Millis>>);

impl PartialEq for HeldSince {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for HeldSince {}

impl Hash for HeldSince {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl HeldSince {
    pub(super) fn new(since: Millis) -> Self {
        Self(NonZero::new(since.max(1)))
    }
}

#[cfg(any(test, debug_assertions))]
impl LockState {
    pub(super) fn check(&self) {
        assert!(self.records.iter().is_sorted_by(|one, next| one.fence < next.fence));
        assert!(self.records.iter().all(|record| !record.is_empty()));
        let due = self.records.iter().filter_map(|record| Some((record.due()?, record.fence)));
        assert!(due.collect::<BTreeSet<_>>().iter().eq(&self.due));
        let listening = self.records.iter().filter(|record| record.listener.is_some()).count();
        assert_eq!(listening, self.listening as usize);
        let mut listeners = self.records.iter().filter_map(|record| record.listener.as_deref());
        assert!(self.is_news || !listeners.clone().any(Listener::is_to_be_told));
        assert!(self.is_told || !listeners.any(|listener| listener.told == WaiterNews::Yes));
        if let Some((_, ahead)) = self.upgrade.as_deref() {
            assert!(!ahead.is_empty() && ahead.is_subset(&self.queue.iter().collect()));
        }
    }
}

#[cfg(test)]
impl LockState {
    pub(super) fn renumber(&mut self, change: impl FnMut(&mut Record)) {
        self.records.iter_mut().for_each(change);
    }
}
