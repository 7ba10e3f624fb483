//! The same random commands on the small server over `waiting` and over these rules: the same replies, and the same effects.

use proptest::collection::vec;
use proptest::prelude::*;

use super::server::{Conn, Lock, QueuedRequest, Reply, Rules, Server, Writes, at};
use super::soak;
use super::world::{Kind, Who, owner};
use crate::encoding::Effect;
use crate::lock::{Deadline, Fence, Held, Millis, Owner, Room, Slot};
use crate::waiting::tests::server as before;
use crate::waiting::{ExtendRequest, Message};

const CONNS: Conn = 4;
const NOW: Millis = 1_700_000_000_000;

const KINDS: &[Kind] = {
    use Kind::{
        Once, Place, PlaceBriefly, PlaceToRead, PlaceToStart, Plain, Read, ReadOnce, ReadWithSession,
        Session, Wait, WaitBriefly, WaitForPair, WaitForSecond, WaitOnce, WaitToRead, WaitToReadWithSession,
        WaitWithSession,
    };
    &[
        Plain,
        Once,
        Read,
        ReadOnce,
        Wait,
        WaitOnce,
        WaitToRead,
        WaitForPair,
        WaitForSecond,
        Session,
        WaitWithSession,
        ReadWithSession,
        WaitToReadWithSession,
        Place,
        PlaceToRead,
        PlaceToStart,
        WaitBriefly,
        PlaceBriefly,
    ]
};

/// The locks of a command; `None` for a command for the first lock alone.
type Set = Option<&'static [Lock]>;

/// (A waiter for several locks that are one gets it in the step that frees it. `waiting` leaves it to a timer.)
const SETS: &[&[Lock]] = &[&[0, 1], &[1, 0], &[1, 2], &[2, 0, 1]];

#[derive(Clone, Copy, Debug)]
enum Action {
    Acquire(Conn, Who, Kind, Millis, Set),
    Release(Who, bool, Set),
    Extend(Who, Millis, Set),
    Break(Lock),
    Leave(Who, Lock),
    Delete(Lock),
    Deaf(bool),
    Close(Conn),
    Unblock(Conn, bool),
    Cut(Millis),
    /// The lock's slot is elsewhere, or arrives, when what is due is done, perhaps without the key.
    Moves(bool, bool),
    /// The server becomes a replica, and a primary again.
    Flip,
    Pass(Millis),
}

fn action(several: bool) -> impl Strategy<Value = Action> {
    // With several locks, what is due at once is done in another order, so that other waits may time out, and other places are given up.
    let kinds = if several { &KINDS[..KINDS.len() - 5] } else { KINDS };
    let (conn, who) = (0..CONNS, 0..3u8);
    let set = if several {
        prop_oneof![1 => Just(None), 2 => prop::sample::select(SETS).prop_map(Some)].boxed()
    } else {
        Just(None).boxed()
    };
    let lock = 0..if several { 3 } else { 1usize };
    prop_oneof![
        8 => (conn.clone(), who.clone(), prop::sample::select(kinds), 1..30i64, set.clone())
            .prop_map(|(conn, who, kind, lease, set)| Action::Acquire(conn, who, kind, lease, set)),
        4 => (who.clone(), any::<bool>(), set.clone())
            .prop_map(|(who, all, set)| Action::Release(who, all, set)),
        2 => (who, 1..30i64, set).prop_map(|(who, lease, set)| Action::Extend(who, lease, set)),
        1 => lock.clone().prop_map(Action::Break),
        1 => (0..3u8, lock.clone()).prop_map(|(who, lock)| Action::Leave(who, lock)),
        1 => lock.prop_map(Action::Delete),
        1 => any::<bool>().prop_map(Action::Deaf),
        1 => conn.clone().prop_map(Action::Close),
        1 => (conn, any::<bool>()).prop_map(|(conn, error)| Action::Unblock(conn, error)),
        1 => (0..20i64).prop_map(Action::Cut),
        1 => (any::<bool>(), any::<bool>()).prop_map(move |(arrives, without)| Action::Moves(arrives, without && !several)),
        1 => Just(Action::Flip),
        3 => (0..20i64).prop_map(Action::Pass),
    ]
}

/// Runs the same on both servers.
macro_rules! both {
    ($server:ident, $before:ident, $name:ident ( $($given:expr),* )) => {{
        let (new, old) = ($server.$name($($given),*), $before.$name($($given),*));
        assert_eq!(new, old);
        new
    }};
}

/// What counts in the end, for each lock: not what happened to a key that was then freed, or got another grant in place of all, nor how a
/// grant was before it was changed again.
fn effects(all: &[(Lock, Effect)]) -> Vec<(Lock, Vec<&Effect>)> {
    let fence = |effect: &Effect| match effect {
        Effect::Alone(grant, _) | Effect::Among(grant, _) => Some(grant.fence()),
        _ => None,
    };
    let of_lock = |lock: Lock| {
        let is_meant = |of: Lock, effect: &Effect| of == lock && !matches!(effect, Effect::Lapsed(_));
        let all: Vec<&Effect> =
            all.iter().filter(|(of, effect)| is_meant(*of, effect)).map(|(_, effect)| effect).collect();
        let from = all.iter().rposition(|effect| matches!(effect, Effect::Free | Effect::Alone(..)));
        let all = all[from.unwrap_or(0)..].to_vec();
        let is_last = |number: usize, effect: &Effect| {
            fence(effect).is_none_or(|this| all[number + 1..].iter().all(|after| fence(after) != Some(this)))
        };
        (0..)
            .zip(&all)
            .filter(|(number, effect)| is_last(*number, effect))
            .map(|(_, effect)| *effect)
            .collect()
    };
    (0..3).map(|lock| (lock, of_lock(lock))).collect()
}

/// What is due at several locks at once is done in another order, so that other grants come first.
fn without_fences(mut reply: Reply, several: bool) -> Reply {
    match &mut reply {
        Reply::Granted { fence, .. } if several => *fence = Fence::MAX,
        Reply::All(all, _) if several => all.iter_mut().for_each(|got| got.fence = Fence::MAX),
        _ => (),
    }
    reply
}

/// A waiter is told the lease that its grant has by then. `waiting` leaves out what another waiter of the same owner has added meanwhile.
fn told(mut answers: Vec<(Conn, Reply)>, several: bool) -> Vec<(Conn, Reply)> {
    for (_, reply) in &mut answers {
        if let Reply::Granted { deadline, .. } | Reply::All(_, deadline) = reply {
            *deadline = Deadline::Never;
        }
    }
    if several {
        answers.sort_by_key(|(conn, _)| *conn);
    }
    answers.into_iter().map(|(conn, reply)| (conn, without_fences(reply, several))).collect()
}

/// With several locks, a grant without its fence.
type HeldNow = (Owner<'static>, Option<Fence>, u32, Room, Option<Slot>, Deadline);

/// The grants whose leases have not ended. `waiting` does not always look at a lock when one of several leases ends.
fn held(all: Vec<Held<'_>>, several: bool) -> Vec<HeldNow> {
    let held = |Held { grant, deadline }: Held<'_>| {
        let fence = Some(grant.fence()).filter(|_| !several);
        (grant.owner().into_owned(), fence, grant.holds(), grant.room(), grant.slot(), deadline)
    };
    all.into_iter().map(held).collect()
}

/// Messages about different locks may come in another order.
fn sorted(messages: &[Message]) -> Vec<String> {
    let mut all: Vec<String> = messages.iter().map(|message| format!("{message:?}")).collect();
    all.sort();
    all
}

/// Does all that is due on both servers.
fn settle(server: &mut Server, before: &mut before::Server, rules: Rules, several: bool, now: Millis) {
    let told = told(server.run_all_due(rules, now), several);
    assert_eq!(told, self::told(before.run_all_due(rules, now), several));
    let queue = |by: Vec<QueuedRequest>| by.into_iter().map(|asked| asked.by).collect::<Vec<_>>();
    for lock in 0..3 {
        assert_eq!(queue(server.asks_of(lock)), queue(before.asks_of(lock)));
        let all = held(server.holders_of(lock, now), several);
        assert_eq!(all, held(before.holders_of(lock, now), several));
    }
    assert_eq!(server.blocked(), before.blocked());
    assert_eq!(sorted(&server.messages), sorted(&before.messages));
}

fn run(rules: Rules, several: bool, actions: &[Action]) {
    let (mut server, mut before, mut now) = (Server::new(CONNS), before::Server::new(CONNS), NOW);
    for action in actions {
        match *action {
            Action::Acquire(conn, who, kind, lease, set) if !server.blocked().contains(&conn) => {
                let (ask, wait) = kind.ask(who, lease, None);
                let (new, old) = match set {
                    None => (
                        server.acquire_on(rules, now, conn, 0, &ask, &wait),
                        before.acquire_on(rules, now, conn, 0, &ask, &wait),
                    ),
                    Some(locks) => (
                        server.acquire_all(rules, now, conn, locks, &ask, &wait),
                        before.acquire_all(rules, now, conn, locks, &ask, &wait),
                    ),
                };
                assert_eq!(without_fences(new, several), without_fences(old, several));
            }
            Action::Acquire(..) => (),
            Action::Release(who, all, set) => {
                let owner = owner(who);
                both!(server, before, release_all(rules, now, set.unwrap_or(&[0]), &owner, all));
            }
            Action::Extend(who, lease, set) => {
                let owner = owner(who);
                let longer = ExtendRequest { owner: &owner, fence: None, lease, confirm: None };
                both!(server, before, extend_each(rules, now, 0, set.unwrap_or(&[0]), &longer));
                // A session whose lease is shorter now may renew it at the next look.
                for lock in 0..3 {
                    server.table.touched(at(lock));
                    before.table.touched(at(lock));
                }
            }
            Action::Break(lock) => _ = both!(server, before, break_on(rules, now, lock, None)),
            Action::Leave(who, lock) => _ = both!(server, before, leave_on(rules, now, lock, &owner(who))),
            Action::Delete(lock) => both!(server, before, delete(lock)),
            Action::Deaf(deaf) => (server.deaf, before.deaf) = (deaf, deaf),
            Action::Close(conn) => both!(server, before, close(rules, now, conn)),
            Action::Unblock(conn, error) => {
                let told = told(server.unblock(rules, now, conn, error), several);
                assert_eq!(told, self::told(before.unblock(rules, now, conn, error), several));
            }
            Action::Cut(lease) => both!(server, before, cut(now + lease)),
            Action::Moves(arrives, without) => {
                if without {
                    both!(server, before, delete(0));
                }
                let writes = if arrives { Writes::Arriving } else { Writes::Elsewhere };
                let told = told(server.run_due(rules, now, writes), several);
                assert_eq!(told, self::told(before.run_due(rules, now, writes), several));
                // If a lock is free, but its slot elsewhere, the cores try again at different times within 100 ms.
                now += if without { 101 } else { 0 };
            }
            Action::Flip => {
                for conn in server.blocked() {
                    let told = told(server.unblock(rules, now, conn, true), several);
                    assert_eq!(told, self::told(before.unblock(rules, now, conn, true), several));
                }
                server.demote();
                before.demote();
            }
            // Time passes only when nothing is due.
            Action::Pass(time) => {
                for _ in 0..time {
                    now += 1;
                    settle(&mut server, &mut before, rules, several, now);
                }
            }
        }
        if !several {
            assert_eq!(effects(&server.effects), effects(&before.effects));
        }
        settle(&mut server, &mut before, rules, several, now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: soak(500, 100_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_cores_do_the_same(pair: bool, actions in vec(action(false), 1..60)) {
        let max_holders = if pair { Room::limit(2).unwrap() } else { Room::ANY };
        run(Rules { max_holders, ..Rules::PLAIN }, false, &actions);
    }

    #[test]
    fn both_cores_do_the_same_to_several_locks(claim in 1..20i64, actions in vec(action(true), 1..60)) {
        run(Rules { claim, ..Rules::PLAIN }, true, &actions);
    }
}
