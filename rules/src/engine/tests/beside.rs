//! The same random commands on the small server over `waiting` and over these rules: the same replies, and the same effects.

use proptest::collection::vec;
use proptest::prelude::*;

use super::server::{Conn, Lock, Reply, Rules, Server};
use super::soak;
use super::world::{Kind, Who, owner};
use crate::encoding::Effect;
use crate::lock::{Deadline, Millis, Room};
use crate::waiting::tests::server as before;

const CONNS: Conn = 4;
const NOW: Millis = 1_700_000_000_000;

const KINDS: &[Kind] = {
    use Kind::{
        Once, Plain, Read, ReadOnce, Wait, WaitBriefly, WaitForPair, WaitForSecond, WaitOnce, WaitToRead,
    };
    &[Plain, Once, Read, ReadOnce, Wait, WaitBriefly, WaitOnce, WaitToRead, WaitForPair, WaitForSecond]
};

#[derive(Clone, Copy, Debug)]
enum Action {
    Acquire(Conn, Who, Kind, Millis),
    Release(Who, bool),
    Extend(Who, Millis),
    Break,
    Close(Conn),
    Unblock(Conn, bool),
    Cut(Millis),
    Pass(Millis),
}

fn action() -> impl Strategy<Value = Action> {
    let (conn, who) = (0..CONNS, 0..3u8);
    prop_oneof![
        8 => (conn.clone(), who.clone(), prop::sample::select(KINDS), 1..30i64)
            .prop_map(|(conn, who, kind, lease)| Action::Acquire(conn, who, kind, lease)),
        4 => (who.clone(), any::<bool>()).prop_map(|(who, all)| Action::Release(who, all)),
        2 => (who, 1..30i64).prop_map(|(who, lease)| Action::Extend(who, lease)),
        1 => Just(Action::Break),
        1 => conn.clone().prop_map(Action::Close),
        1 => (conn, any::<bool>()).prop_map(|(conn, error)| Action::Unblock(conn, error)),
        1 => (0..20i64).prop_map(Action::Cut),
        3 => (0..20i64).prop_map(Action::Pass),
    ]
}

/// Runs the same on both servers.
macro_rules! both {
    ($server:ident, $before:ident, $name:ident ( $($given:expr),* )) => {{
        let (new, old) = ($server.$name($($given),*), $before.$name($($given),*));
        assert_eq!(new, old);
    }};
}

/// What counts in the end: not what happened to a key that was then freed, or got another grant in place of all, nor how a grant was before
/// it was changed again.
fn effects(all: &[(Lock, Effect)]) -> Vec<&Effect> {
    let fence = |effect: &Effect| match effect {
        Effect::Alone(grant, _) | Effect::Among(grant, _) => Some(grant.fence()),
        _ => None,
    };
    let from =
        all.iter().rposition(|(_, effect)| matches!(effect, Effect::Free | Effect::Alone(..))).unwrap_or(0);
    let all: Vec<&Effect> = all.iter().skip(from).map(|(_, effect)| effect).collect();
    let is_last = |number: usize, effect: &Effect| {
        fence(effect).is_none_or(|this| all[number + 1..].iter().all(|after| fence(after) != Some(this)))
    };
    (0..).zip(&all).filter(|(number, effect)| is_last(*number, effect)).map(|(_, effect)| *effect).collect()
}

/// A waiter is told the lease that its grant has by then. `waiting` leaves out what another waiter of the same owner has added meanwhile.
fn told(answers: Vec<(Conn, Reply)>) -> Vec<(Conn, Reply)> {
    let without_lease = |(conn, mut reply): (Conn, Reply)| {
        if let Reply::Granted { deadline, .. } = &mut reply {
            *deadline = Deadline::Never;
        }
        (conn, reply)
    };
    answers.into_iter().map(without_lease).collect()
}

fn run(rules: Rules, actions: &[Action]) {
    let (mut server, mut before, mut now) = (Server::new(CONNS), before::Server::new(CONNS), NOW);
    for action in actions {
        match *action {
            Action::Acquire(conn, who, kind, lease) if !server.blocked().contains(&conn) => {
                let (ask, wait) = kind.ask(who, lease, None);
                both!(server, before, acquire_on(rules, now, conn, 0, &ask, &wait));
            }
            Action::Acquire(..) => (),
            Action::Release(who, all) => both!(server, before, release(rules, now, &owner(who), None, all)),
            Action::Extend(who, lease) => both!(server, before, extend(rules, now, &owner(who), None, lease)),
            Action::Break => both!(server, before, break_on(rules, now, 0, None)),
            Action::Close(conn) => both!(server, before, close(rules, now, conn)),
            Action::Unblock(conn, error) => {
                let told = told(server.unblock(rules, now, conn, error));
                assert_eq!(told, self::told(before.unblock(rules, now, conn, error)));
            }
            Action::Cut(lease) => both!(server, before, cut(now + lease)),
            Action::Pass(time) => now += time,
        }
        assert_eq!(effects(&server.effects), effects(&before.effects));
        assert_eq!(told(server.run_all_due(rules, now)), told(before.run_all_due(rules, now)));
        assert_eq!((server.queued(), server.blocked()), (before.queued(), before.blocked()));
        assert_eq!(server.locks, before.locks);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: soak(500, 100_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_cores_do_the_same(pair: bool, actions in vec(action(), 1..60)) {
        let max_holders = if pair { Room::limit(2).unwrap() } else { Room::ANY };
        run(Rules { max_holders, ..Rules::PLAIN }, &actions);
    }
}
