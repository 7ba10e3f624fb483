//! Failovers by sentinels, under load.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::group::{Group, LONG, patiently};
use super::pinned::{Pinned, reply_to};
use crate::support::{
    Belief, Link, Load, Network, Outcome, Rng, Setup, Way, Work, figure, freeze, grant, wake,
};

/// How a primary fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Exit {
    /// It is killed at once, and the last effects for its replicas are lost.
    Killed,
    /// It freezes, and continues as soon as a sentinel has begun to replace it.
    WokenEarly,
    /// It freezes, and continues when one replica has been promoted, while the other still follows it.
    WokenInBetween,
    /// It freezes, and continues some time after it was replaced.
    WokenLate,
    /// It runs, and clients reach it, but neither its replicas nor the sentinels do, until some time after it was replaced.
    CutOff,
    /// As `CutOff`, but only messages from the other servers are lost.
    Deaf,
    /// As `CutOff`, but only messages to the other servers are lost.
    Mute,
}

impl Exit {
    const ALL: [Self; 7] = [
        Self::Killed,
        Self::WokenEarly,
        Self::WokenInBetween,
        Self::WokenLate,
        Self::CutOff,
        Self::Deaf,
        Self::Mute,
    ];
}

/// How many thousandths of the relays' packets are lost, if there is a lossy network, and by how many ms a relay delays data at most.
const LOSS: u32 = 20;
const DELAY: usize = 50;

/// How long it took until the next primary granted a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    exit: Exit,
    /// The time since the old primary failed.
    in_all: Duration,
    /// The time since the new primary was promoted.
    promoted: Duration,
}

/// Servers that fail over while clients load them.
pub(super) struct Trial {
    group: Group,
    network: Option<Network>,
    load: Load,
    work: Work,
    random: Rng,
    began: Instant,
}

/// Prints when the next primary granted a lock, for each way in which primaries failed.
fn tell_times<'a>(what: &str, times: impl Iterator<Item = &'a Took>) {
    let mut times: Vec<&Took> = times.collect();
    times.sort_by_key(|took| took.promoted);
    let (Some(middle), Some(longest)) = (times.get(times.len() / 2), times.last()) else { return };
    let Took { exit, in_all, promoted } = middle;
    let most = longest.promoted;
    figure(
        &format!("{what}, {exit:?}: the next grant, in the middle of {}", times.len()),
        format!(
            "{promoted:.1?} after the promotion (at most {most:.1?}), {in_all:.1?} after the end of the old primary"
        ),
    );
}

/// Returns the locks of the clients.
pub(super) fn keys() -> Vec<String> {
    (0..5).map(|number| format!("lock{number}")).collect()
}

impl Trial {
    /// Starts a primary with this many replicas, and clients that do this work.
    pub(super) fn start(setup: &Setup, replicas: usize, work: Work) -> Self {
        let began = Instant::now();
        let group = Group::start(setup, replicas);
        group.wait_for_health();
        // Some clients give up a server that does not answer, others wait until it wakes up. Some of both kinds stay with a primary that
        // has too few replicas.
        let patience = [400, 60_000].map(Duration::from_millis);
        let routes = group.routes(8).into_iter().enumerate();
        let routes = routes.map(|(number, route)| if number / 2 % 2 == 0 { route } else { route.faithful() });
        let load = Load::start(routes.collect(), &work, &patience);
        Self { group, network: None, load, work, random: Rng::new(), began }
    }

    /// From now on, the network loses packets between the servers, and the relays delay data.
    pub(super) fn lossy(self, network: Network) -> Self {
        let mut trial = Self { network: Some(network), ..self };
        trial.group.relays.iter().for_each(|relay| relay.delay(trial.random.below(DELAY)));
        trial.lose([]);
        trial
    }

    /// Loses all packets in these directions, and some of all others.
    fn lose(&self, ways: impl IntoIterator<Item = Way>) {
        let Some(network) = &self.network else { return };
        let each =
            self.group.relays.iter().flat_map(|relay| [Way::To(relay.port()), Way::From(relay.port())]);
        network.lose(ways.into_iter().map(|way| (way, 1000)).chain(each.map(|way| (way, LOSS))));
    }

    /// Waits for this many grants by a primary, which it returns. On a busy machine the sentinels may make another failover.
    fn wait_for_grants(&self, count: usize, from: Instant) -> usize {
        let mut primary = None;
        patiently("grants by the primary", || {
            primary = self.group.primary();
            let port = primary.map(|primary| self.group.servers[primary].port());
            port.is_some_and(|port| self.load.ledger.count_since(from, port) >= count)
        });
        primary.expect("the sentinels agree")
    }

    /// Makes another client take all free locks, and keep each for its whole lease.
    fn keep_some(&mut self, server: usize) {
        let (server, sync) = (&self.group.servers[server], self.work.option());
        let mut link = Link::to(server.port(), LONG);
        for key in keys() {
            let (owner, lease) = (format!("keeper:{}", self.load.ledger.len()), self.work.lease());
            let line = format!("LOCK.ACQUIRE {key} OWNER {owner} PX {lease} BLOCK 100 {sync}");
            let asked = Instant::now();
            // Without replicas, requests with `SYNC` are always refused.
            let outcome =
                if sync.is_empty() { Outcome::Reply(reply_to(&mut link, &line)) } else { link.send(&line) };
            let Outcome::Reply(reply) = outcome else { continue };
            if let Some(grant) = grant(reply) {
                let (until, since) = (grant.ends(asked, true), Instant::now());
                let (fence, room, server) = (grant.fence, 1, server.port());
                self.load.ledger.add(Belief { key, owner, fence, room, server, asked, since, until });
            }
        }
    }

    /// Makes one failover. If `careful` is true, there is a grace, and some clients wait until it is over.
    pub(super) fn round(&mut self, exit: Exit, careful: bool) -> Took {
        self.group.wait_for_health();
        let old = self.wait_for_grants(20, Instant::now());
        sleep(self.random.up_to(300));
        let pinned = if careful && exit != Exit::Killed {
            Pinned::all(&self.group.servers[old], self.work.lease())
        } else {
            vec![]
        };
        match exit {
            Exit::Killed => {
                self.group.relays[old].lose_effects(true);
                self.keep_some(old);
                self.group.servers[old].kill();
            }
            Exit::CutOff => self.group.relays[old].cut(true),
            Exit::Deaf => self.lose([Way::To(self.group.relays[old].port())]),
            Exit::Mute => self.lose([Way::From(self.group.relays[old].port())]),
            Exit::WokenEarly | Exit::WokenInBetween | Exit::WokenLate => freeze(&self.group.servers[old]),
        }
        let began = Instant::now();
        match exit {
            Exit::Killed => self.group.relays[old].lose_effects(false),
            Exit::WokenEarly => {
                patiently("a failover to begin", || self.group.failover_has_begun());
                wake(&self.group.servers[old]);
            }
            Exit::WokenInBetween | Exit::WokenLate | Exit::CutOff | Exit::Deaf | Exit::Mute => {}
        }
        patiently("a promotion", || self.group.has_primary_beside(old));
        let promoted = Instant::now();
        if exit == Exit::WokenInBetween {
            wake(&self.group.servers[old]);
        }
        patiently("a new primary", || self.group.primary().is_some_and(|new| new != old));
        if matches!(exit, Exit::WokenLate | Exit::CutOff | Exit::Deaf | Exit::Mute) {
            sleep(self.random.up_to(4000));
        }
        match exit {
            Exit::Killed => {
                self.group.servers[old].relaunch();
                let new = self.group.primary().unwrap_or(old);
                self.group.follow(old, new);
            }
            Exit::WokenLate => wake(&self.group.servers[old]),
            Exit::CutOff => self.group.relays[old].cut(false),
            Exit::Deaf | Exit::Mute => self.lose([]),
            Exit::WokenEarly | Exit::WokenInBetween => {}
        }
        let new = self.wait_for_grants(20, began);
        for pinned in pinned {
            pinned.comes_back(&self.group.servers[old], &self.group.servers[new], &self.load.ledger);
        }
        self.group.wait_until_back(old);
        let port = self.group.servers[new].port();
        let granted = self.load.ledger.first_since(began, port).expect("there are some");
        Took { exit, in_all: granted - began, promoted: granted.saturating_duration_since(promoted) }
    }

    /// Ends the trial. Returns how many overlaps there were. Fences must rise in any case.
    pub(super) fn end(self, what: &str, times: &[Took]) -> usize {
        let Self { group, load, began, .. } = self;
        let ledger = Arc::clone(&load.ledger);
        let outcomes = load.stop();
        let overlaps = ledger.overlaps();
        figure(
            what,
            format!(
                "{} failovers in {:?}, {} grants, {} overlaps, {outcomes:?}",
                times.len(),
                began.elapsed(),
                ledger.len(),
                overlaps.len()
            ),
        );
        for exit in Exit::ALL {
            tell_times(what, times.iter().filter(|took| took.exit == exit));
        }
        assert_eq!(ledger.disorder(true), [], "fences rise");
        assert_eq!(ledger.repeats(), [], "a fence is given once");
        let known = ["ASK", "GRACE", "NOREPLICAS", "NOTHELD", "READONLY", "UNBLOCKED", "LOADING"];
        let strange = outcomes
            .keys()
            .find(|what| what.starts_with(char::is_uppercase) && !known.contains(&what.as_str()));
        assert_eq!(strange, None, "an error that does not belong here");
        assert!(outcomes["granted several"] > 5, "{outcomes:?}");
        drop(group);
        for (earlier, later) in overlaps.iter().take(5) {
            println!("  overlap: {earlier:?}\n       and {later:?}");
        }
        overlaps.len()
    }
}
