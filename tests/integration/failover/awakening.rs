//! An old primary that continues beside its successor, and how the grace of each keeps their holders apart. There are no sentinels: the
//! test takes each step of a failover.

use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::Value;

use super::group::LONG;
use crate::support::{
    Link, Outcome, Proxy, Server, Setup, Waiter, busy_script, freeze, grant, wait_for, wake,
};

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A primary and the replica that will succeed it. Both have this longest lease, and a grace that is longer by this much; in ms.
struct Pair {
    old: Server,
    relay: Proxy,
    new: Server,
    lease: u64,
}

impl Pair {
    fn start(lease: u64, beyond: u64) -> Self {
        let grace = lease + beyond;
        let args = format!("lock.default-lease {lease} lock.max-lease {lease} lock.failover-grace {grace}");
        let setup = Setup::new().set("busy-reply-threshold", "60000").module_args(&args);
        let old = setup.clone().start();
        let relay = Proxy::to(old.port());
        let new = setup.set("replicaof", &format!("127.0.0.1 {}", relay.port())).start();
        new.wait_for_sync_with(&old);
        for line in ["min-replicas-to-write 1", "min-replicas-max-lag 1"] {
            old.client().ask::<()>(&format!("CONFIG SET {line}"));
        }
        let pair = Self { old, relay, new, lease };
        // The grace after the start has to end first.
        let mut client = pair.old.client();
        wait_for("the first grant", || client.send("LOCK.ACQUIRE first OWNER x").is_ok());
        wait_for("the end of the first grant", || client.send("LOCK.RELEASE first x").is_ok());
        pair
    }

    /// Stops the old primary once it counts its replica as good, which it checks once a second.
    fn fall_asleep(&self) {
        let mut client = self.old.client();
        wait_for("its replica to count", || client.info("replication", "min_slaves_good_slaves") == "1");
        freeze(&self.old);
    }

    fn open(&self) -> Link {
        Link::to(self.old.port(), LONG)
    }

    /// Promotes the replica without the old primary's knowing. The returned link belongs to another owner, whose acquire has been sent.
    fn fail_over(&self) -> Link {
        // From here on, the replica sends no acknowledgements; the old primary checks for them once a second.
        self.relay.lose_effects(true);
        self.relay.hide_ends();
        self.new.client().ask::<()>("REPLICAOF NO ONE");
        let mut link = Link::to(self.new.port(), LONG);
        assert!(link.begin(&format!("LOCK.ACQUIRE k OWNER successor PX {} BLOCK 0", self.lease)));
        link
    }
}

/// Takes a lock; tries again, because on a busy machine the server may miss its replica, or stand still and begin a grace.
#[track_caller]
fn take(link: &mut Link, line: &str) {
    wait_for("a grant", || {
        let outcome = link.send(line);
        assert!(matches!(outcome.code(), None | Some("NOREPLICAS" | "GRACE")), "{outcome:?}");
        matches!(outcome, Outcome::Reply(reply) if grant(reply.clone()).is_some())
    });
}

/// Alice holds the lock for 1.5 s, and bob waits for it. If the machine is so slow that her lease ends first, this tries again.
#[track_caller]
fn take_and_wait(pair: &Pair) -> [Link; 2] {
    let (mut holder, mut client) = (pair.open(), pair.old.client());
    loop {
        let mut waiter = pair.open();
        take(&mut holder, "LOCK.ACQUIRE k OWNER alice ONCE PX 1500");
        waiter.begin("LOCK.ACQUIRE k OWNER bob BLOCK 0");
        let (mut waits, mut lapsed) = (false, false);
        wait_for("a waiter", || {
            let info = client.lock_info("k");
            lapsed = info.as_ref().is_none_or(|info| info["owner"] != "alice");
            waits = !lapsed && info.is_some_and(|info| info["waiters"] == "1");
            waits || lapsed
        });
        if waits {
            return [holder, waiter];
        }
    }
}

/// Returns when the outcome came, which has to be a grant.
fn granted(link: &mut Link) -> Instant {
    let Outcome::Reply(reply) = link.finish() else { panic!("no grant") };
    assert!(grant(reply).is_some());
    Instant::now()
}

/// Returns until when an owner relies on a lease that it asked for at this time, or `None` if it was refused.
fn believed(outcome: &Outcome, asked: Instant, lease: u64) -> Option<Instant> {
    let given = match outcome {
        Outcome::Reply(Value::Int(given)) => Some(*given),
        Outcome::Reply(reply) => grant(reply.clone()).map(|grant| grant.lease),
        _ => None,
    };
    given.map(|given| asked + ms(lease.min(given.unsigned_abs())))
}

#[track_caller]
pub(super) fn assert_apart(until: Option<Instant>, next: Instant) {
    let both = until.map(|until| until.saturating_duration_since(next)).unwrap_or_default();
    assert_eq!(both, Duration::ZERO, "two owners inside their leases");
}

#[test]
fn a_primary_that_wakes_up_grants_nothing_at_first() {
    let pair = Pair::start(4000, 2000);
    let mut links = [pair.open(), pair.open(), pair.open()];
    take(&mut links[0], "LOCK.ACQUIRE k OWNER alice ONCE PX 3800");
    let mut waiter = Waiter::new(&pair.old, "k", "OWNER bob");
    take(&mut links[0], "LOCK.ACQUIRE k OWNER alice ONCE PX 3800");
    pair.fall_asleep();
    let mut successor = pair.fail_over();
    granted(&mut successor);
    // The stopped server finds these together: a release, an acquire of a lock that has lapsed, and an acquire of another lock.
    links[0].begin("LOCK.RELEASE k alice");
    links[1].begin("LOCK.ACQUIRE k OWNER carol");
    links[2].begin("LOCK.ACQUIRE other OWNER carol");
    wake(&pair.old);
    assert!(matches!(links[0].finish().code(), Some("NOTHELD" | "NOREPLICAS")));
    for link in &mut links[1..] {
        let outcome = link.finish();
        assert!(matches!(outcome.code(), Some("GRACE" | "NOREPLICAS")), "{outcome:?}");
    }
    // After the grace, nothing is granted either, because the replica is gone.
    let mut client = pair.old.client();
    wait_for("the end of the grace", || client.refused("LOCK.ACQUIRE other").starts_with("NOREPLICAS"));
    assert!(waiter.is_blocked(&mut client));
    client.ask::<()>(&format!("REPLICAOF 127.0.0.1 {}", pair.new.port()));
    let outcome = waiter.client.finish();
    assert!(outcome.as_ref().is_err_and(|error| error.starts_with("UNBLOCKED ")), "{outcome:?}");
}

#[test]
fn a_primary_that_wakes_up_lengthens_no_lease_at_first() {
    // The lease is longer than the failover, so it still runs when the old primary wakes up.
    let pair = Pair::start(6000, 2000);
    let mut owners: Vec<Link> = (0..10).map(|_| pair.open()).collect();
    let ask = |number: usize| format!("LOCK.ACQUIRE k{number} OWNER alice ONCE");
    for (number, owner) in owners.iter_mut().enumerate() {
        take(owner, &ask(number));
    }
    pair.fall_asleep();
    let began = Instant::now();
    sleep(ms(1000));
    let mut successor = pair.fail_over();
    sleep(ms(4500).saturating_sub(began.elapsed()));
    let asked = Instant::now();
    for (number, owner) in owners.iter_mut().enumerate() {
        owner.begin(&if number % 2 == 0 { ask(number) } else { format!("LOCK.EXTEND k{number} alice") });
    }
    wake(&pair.old);
    let outcomes: Vec<Outcome> = owners.iter_mut().map(Link::finish).collect();
    // The grace of the new primary ends for all locks at once.
    let next = granted(&mut successor);
    for outcome in outcomes {
        assert_apart(believed(&outcome, asked, pair.lease), next);
    }
}

#[test]
fn a_primary_that_wakes_up_renews_no_session_at_first() {
    let pair = Pair::start(6000, 2000);
    let mut owner = pair.open();
    take(&mut owner, "LOCK.ACQUIRE k OWNER alice SESSION");
    let mut client = pair.old.client();
    pair.fall_asleep();
    let before: i64 = pair.new.client().ask("PEXPIRETIME k");
    pair.fail_over();
    // The renewal, due after a third of the lease, is overdue.
    sleep(ms(3000));
    wake(&pair.old);
    let after: i64 = client.ask("PEXPIRETIME k");
    assert!(after <= before, "the lease goes on for {} ms more than its new primary knows", after - before);
}

#[test]
fn a_primary_that_was_busy_while_it_was_replaced_grants_nothing_at_first() {
    // A failover takes longer on a busy machine, so longer times are tried, too.
    assert!(
        [8, 24, 72].into_iter().any(is_busy_while_it_is_replaced),
        "the old primary was not busy for long enough"
    );
}

/// Whether the old primary was busy, for this many seconds, until its successor had granted the lock.
fn is_busy_while_it_is_replaced(seconds: u32) -> bool {
    let pair = Pair::start(1500, 2000);
    let _links = take_and_wait(&pair);
    let (mut busy, script) = (pair.open(), busy_script(&mut pair.old.client(), seconds.into()));
    busy.begin_words(&["EVAL", &script, "0"]);
    let mut successor = pair.fail_over();
    granted(&mut successor);
    let held = Instant::now();
    let done = busy.finish();
    assert!(matches!(done, Outcome::Reply(_)), "{done:?}");
    // The successor's owner, or the next one, is still inside its lease.
    let outcome = pair.old.client().holder("k").map(|held| held.owner);
    let was_busy = held.elapsed() > ms(200);
    assert!(outcome.is_none() || !was_busy, "the old primary granted the lock to {outcome:?}");
    // The primary checks its replicas once a second.
    wait_for("an old primary without replicas", || {
        pair.old.client().info("replication", "min_slaves_good_slaves") == "0"
    });
    was_busy
}
