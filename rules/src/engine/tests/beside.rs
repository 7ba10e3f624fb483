//! The same random commands on the small server over `waiting` and over these rules: the same replies, and the same effects.

use proptest::collection::vec;
use proptest::prelude::*;

use super::server::{Conn, Lock, Rules, Server};
use super::soak;
use super::world::{Kind, Who, owner};
use crate::encoding::Effect;
use crate::lock::{Millis, Room};
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

/// Before another grant takes its place, `waiting` frees a lock whose only grant was broken.
fn effects(all: &[(Lock, Effect)]) -> Vec<&Effect> {
    let after = all.iter().skip(1).map(Some).chain([None]);
    let counts = |(effect, after): &(&(Lock, Effect), Option<&(Lock, Effect)>)| {
        !matches!((&effect.1, after), (Effect::Free, Some((_, Effect::Alone(..)))))
    };
    all.iter().zip(after).filter(counts).map(|(effect, _)| &effect.1).collect()
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
            Action::Unblock(conn, error) => both!(server, before, unblock(rules, now, conn, error)),
            Action::Cut(lease) => both!(server, before, cut(now + lease)),
            Action::Pass(time) => now += time,
        }
        assert_eq!(effects(&server.effects), effects(&before.effects));
        both!(server, before, run_all_due(rules, now));
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
