//! `SYNC`: replicas have to confirm a grant or an extension before the client is told of it. Until then, the client is blocked; if it goes
//! away, it counts as a waiter that has not been told of its grant.
//!
//! `tell_when_confirmed` has the client of a command blocked; a waiter is already blocked, and stays so (`Stage::Unconfirmed`). What
//! replicas have to confirm is in `replication`. `take_up_confirmed` takes up what they have confirmed, and `end_unconfirmed` ends what
//! they have not confirmed in time. The renewals of a session that began with `SYNC` have to be confirmed, too (`session`).

use std::num::NonZero;

use super::host::{Host, TURN};
use super::queue::RequestId;
use super::replication::{Awaited, Confirm, Offset};
use super::step::{Env, Site};
use super::table::Table;
use super::waiter::{Answer, Caller, RequestedLocks, Stage, Waiter};
use crate::lock::{AcquireRequest, Deadline, Millis};

/// If the replicas can't be asked now, the module tries again after this many ms.
const AGAIN: Millis = 2;

/// Keeps the client of the running command blocked until replicas have confirmed what it has got.
#[cold]
pub(super) fn tell_when_confirmed<C: Copy>(
    env: &mut Env<'_, C>,
    sites: &[Site<'_>],
    several: bool,
    caller: &Caller,
    ask: AcquireRequest<'static>,
    confirm: Confirm,
    answer: Answer,
) -> RequestId {
    let request = env.table.next_request();
    let mut locks = RequestedLocks::of(sites.iter().map(|site| env.table.intern(site.at)), several, 0);
    locks.all_mut().iter_mut().zip(sites).for_each(|(lock, site)| lock.got = site.got);
    let until = match answer {
        Answer::Granted { until } | Answer::Extended { until } => until,
        _ => Deadline::Never,
    };
    let time_up = NonZero::new(confirm.too_late(until, env.now.millis()));
    let (connection, since, stage) = (caller.connection, env.now.micros, Stage::Unconfirmed(answer));
    let (client, channel, confirm, unblocked) = (None, None, Some(confirm), false);
    let waiter = Waiter {
        locks,
        ask,
        client,
        confirm,
        channel,
        connection,
        since,
        timeout: 0,
        time_up,
        stage,
        unblocked,
    };
    env.table.add(request, waiter);
    request
}

/// Takes up what enough replicas have confirmed by now: clients are told, and renewals count. If there are newer changes, asks the replicas
/// for another acknowledgement. A timer calls this function after each acknowledgement, and from time to time. Returns in how many ms the
/// timer has to call it again; `None` if there is nothing to do before the next acknowledgement.
pub fn take_up_confirmed<H: Host>(host: &mut H) -> Option<Millis> {
    if host.table().replication.is_empty() {
        return None;
    }
    host.table().replication.heard();
    let mut seen = host.replicas();
    seen.replicas.sort_unstable_by(|one, other| other.cmp(one));
    while host.table().confirm_next(&seen.replicas) {
        if host.used() >= TURN {
            return Some(0);
        }
    }
    if host.table().replication.is_to_ask() {
        if !host.ask_replicas() {
            return Some(AGAIN);
        }
        host.table().replication.asked(seen.written);
    }
    None
}

impl<C: Copy> Table<C> {
    /// Takes up the next answer or renewal that enough replicas have confirmed. Returns whether there was one.
    fn confirm_next(&mut self, acks: &[Offset]) -> bool {
        match self.replication.next_confirmed(acks).cloned() {
            Some(Awaited::Answer(request)) => {
                if let Some(Stage::Unconfirmed(answer)) = self.stage(request) {
                    self.set_stage(request, Stage::Answered(answer));
                }
            }
            Some(Awaited::Renewal(id, fence)) => self.change(id.to_ref(), None, |table, lock| {
                let session = lock.record(fence).and_then(|record| record.session);
                table.set_renewal(&id, lock, fence, session, None);
            }),
            None => return false,
        }
        true
    }

    /// Too few replicas have confirmed this answer in time.
    #[cold]
    pub(super) fn end_unconfirmed(&mut self, request: RequestId, answer: Answer) {
        if let Answer::Extended { .. } = answer {
            self.set_stage(request, Stage::Answered(Answer::ExtensionUnconfirmed));
        } else {
            self.revoke(request);
            self.set_stage(request, Stage::Answered(Answer::GrantUnconfirmed));
        }
    }
}
