//! The commands that clients send to the small server.

use super::{Blocked, Conn, Lock, Reply, Rules, Server};
use crate::engine::{self, Caller, Outcome};
use crate::lock::{AcquireRequest, Deadline, Millis, Owner};
use crate::waiting::{ExtendRequest, Refusal, ReleaseRequest, WaitOptions};

impl Server {
    pub(crate) fn acquire_on(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        _: Lock,
        ask: &AcquireRequest<'static>,
        wait: &WaitOptions,
    ) -> Reply {
        assert!(!ask.session && wait.channel.is_none() && wait.confirm.is_none());
        let id = self.conns[usize::from(conn)].id;
        let caller = Caller { id, may_block: true, most_waiters: rules.most_waiters };
        let outcome = self.turn(rules, now).step(|site| engine::acquire(site, &caller, ask, wait.timeout));
        if let Ok(Outcome::Waits(request)) = outcome {
            self.table.blocked(request, request);
            self.blocked.insert(request, Blocked::new(conn, id));
        }
        match outcome {
            Ok(Outcome::Granted(got, until)) => Reply::granted(got, until),
            Ok(Outcome::Waits(_)) => Reply::Waits,
            Ok(Outcome::Taken) => Reply::Null,
            Err(Refusal::NoReentry(why)) => Reply::NoReentry(why),
            Err(Refusal::Deadlock) => Reply::Deadlock,
            Err(Refusal::MaxWaiters) => Reply::TooMany,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    pub(crate) fn leave_on(&mut self, _: Rules, _: Millis, _: Lock, _: &Owner<'_>) -> bool {
        panic!("no places")
    }

    pub(crate) fn release(
        &mut self,
        rules: Rules,
        now: Millis,
        owner: &Owner<'_>,
        fence: Option<u64>,
        all: bool,
    ) -> Option<u32> {
        let given = ReleaseRequest { owner, fence, all };
        self.turn(rules, now).step(|site| engine::release(site, given)).ok()
    }

    pub(crate) fn extend(
        &mut self,
        rules: Rules,
        now: Millis,
        owner: &Owner<'_>,
        fence: Option<u64>,
        lease: Millis,
    ) -> Option<Deadline> {
        let longer = ExtendRequest { owner, fence, lease, confirm: None };
        self.turn(rules, now).step(|site| engine::extend(site, &longer)).ok()
    }

    pub(crate) fn extend_each(
        &mut self,
        _: Rules,
        _: Millis,
        _: Conn,
        _: &[Lock],
        _: &ExtendRequest<'_>,
    ) -> Reply {
        panic!("no replicas")
    }

    pub(crate) fn break_on(&mut self, rules: Rules, now: Millis, _: Lock, fence: Option<u64>) -> usize {
        self.turn(rules, now).step(|site| engine::break_(site, fence)).len()
    }
}
