//! Runs steps on the small server.

use super::{AT, Reply, Rules, Server, Writes, time};
use crate::encoding::Effect;
use crate::engine::{self, Answer, Grants, Host, Site, Table};
use crate::lock::{Deadline, LONGEST_LEASE, Limits, Micros, Millis};
use crate::waiting::{LockId, RequestId};

/// One turn of the server's event loop.
pub(super) struct Turn<'a> {
    pub(super) server: &'a mut Server,
    pub(super) rules: Rules,
    pub(super) now: Millis,
    pub(super) writes: Writes,
    used: Micros,
}

impl Server {
    pub(super) fn turn(&mut self, rules: Rules, now: Millis) -> Turn<'_> {
        Turn { server: self, rules, now, writes: Writes::Taken, used: 0 }
    }
}

impl Turn<'_> {
    /// Runs a step on the lock, and then does its effects.
    pub(super) fn step<R>(&mut self, body: impl FnOnce(Site<'_, RequestId>) -> R) -> R {
        self.expire();
        let limits = Limits {
            max_lease: self.rules.max_lease.unwrap_or(LONGEST_LEASE),
            max_hold: self.rules.max_hold,
            expiry_slack: 0,
            max_holders: self.rules.max_holders.most().unwrap_or(0),
            may_lengthen: true,
        };
        let Server { locks, effects, fences, table, .. } = &mut *self.server;
        let (value, until) =
            locks[0].take().map_or((None, Deadline::Never), |(value, until)| (Some(value), until));
        let (mut grants, mut done) = (Grants { value, until }, Vec::new());
        let now = time(self.now);
        let result =
            body(Site { at: AT, grants: &mut grants, table, fences, limits, now, effects: &mut done });
        let Grants { value, until } = grants;
        let held = |fence| {
            let held = value.as_ref()?.with_fence(fence, || until)?;
            Some((held.grant.clone(), held.deadline))
        };
        effects.extend(done.into_iter().filter_map(|effect| {
            let effect = match effect {
                engine::Effect::Alone(fence) => {
                    held(fence).map(|(grant, until)| Effect::Alone(grant, until))?
                }
                engine::Effect::Among(fence) => {
                    held(fence).map(|(grant, until)| Effect::Among(grant, until))?
                }
                engine::Effect::Ended(fence) => Effect::Ended(fence),
                engine::Effect::Lapsed(now) => Effect::Lapsed(now),
                engine::Effect::Free => Effect::Free,
                engine::Effect::Event(_) => return None,
            };
            Some((0, effect))
        }));
        locks[0] = value.map(|value| (value, until));
        result
    }

    pub(super) fn expire(&mut self) {
        if self.server.locks[0].take_if(|(_, until)| *until < Deadline::At(self.now)).is_some() {
            self.server.effects.push((0, Effect::Free));
            self.server.table.touched(AT);
        }
    }

    /// Returns what the module answers to a client that was unblocked.
    pub(super) fn reply(&mut self, request: RequestId) -> Option<Reply> {
        self.expire();
        let Server { table, locks, .. } = &mut *self.server;
        let answer = table.tell(request, |_, fence| {
            let (value, until) = locks[0].as_ref()?;
            value.alive_with(fence, *until, self.now)
        })?;
        Some(match answer {
            Answer::Granted(got, until) => Reply::granted(got, until),
            Answer::NoReentry(why) => Reply::NoReentry(why),
            Answer::Deadlock => Reply::Deadlock,
            Answer::TimedOut => Reply::Null,
        })
    }

    pub(super) fn finished(&mut self, request: RequestId, gone: bool, arrived: impl FnOnce(bool) -> bool) {
        let told = self.server.table.told_client(request).filter(|_| gone);
        if told.is_some_and(|(_, unblocked)| !arrived(unblocked)) {
            self.server.table.depart(request);
        }
        self.server.table.freed(request);
    }

    pub(super) fn run_due(&mut self) {
        engine::run_due(self, time(self.now));
    }

    pub(super) fn send_due(&mut self) {
        engine::send_due(self);
    }

    pub(super) fn closed(&mut self, client: u64) {
        self.server.table.closed(client);
    }

    pub(super) fn depart(&mut self, request: RequestId) {
        self.server.table.depart(request);
    }
}

impl Host for Turn<'_> {
    type Client = RequestId;

    fn table(&mut self) -> &mut Table<RequestId> {
        &mut self.server.table
    }

    fn used(&mut self) -> Micros {
        self.used += if self.rules.slow { Micros::from(u32::MAX) } else { 1 };
        self.used
    }

    fn settle(&mut self, _: &LockId) -> bool {
        if self.writes != Writes::Taken {
            return false;
        }
        self.step(engine::settle);
        true
    }

    fn unblock(&mut self, request: RequestId) {
        self.answer(request);
    }
}
