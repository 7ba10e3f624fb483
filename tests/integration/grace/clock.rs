//! `lock.failover-grace` and a wall clock that is set: the server never stood still, so it must not refuse anything.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{
    Client, Server, Setup, Waiter, WallClock, halted_lately, server_time, wait_for, wall_clock, while_stopped,
};

/// In this time without events, a server would believe that it stood still.
const QUIET: Duration = Duration::from_millis(1150);

/// How far the clock is set, in seconds.
const STEP: i32 = 30;

/// The documented settings for a failover: leases of up to 2 s, and an old primary that lives on for 1 s.
fn setup() -> Setup {
    Setup::new()
        .module_args("max-lease 2000 failover-grace 3000")
        .set("min-replicas-to-write", "1")
        .set("min-replicas-max-lag", "1")
}

/// Returns a primary with this clock and its replica, after the grace of the start.
fn past_its_start(clock: &WallClock) -> (Server, Server) {
    let primary = clock.of(setup()).start();
    let replica = primary.replica_with(setup());
    let mut client = primary.client();
    wait_for("the end of the grace", || client.send("LOCK.ACQUIRE first").is_ok());
    insist(&mut client, "LOCK.BREAK first");
    (primary, replica)
}

/// Sends a command until it succeeds, because on a busy machine the server may miss its replica for a moment.
#[track_caller]
fn insist(client: &mut Client, line: &str) {
    wait_for(line, || {
        let reply = client.send(line);
        assert!(reply.as_ref().err().is_none_or(|error| excused(error)), "{line}: {reply:?}");
        reply.is_ok()
    });
}

/// Whether a refusal has another reason than the clock: a missed replica, or a machine that stood still.
fn excused(error: &str) -> bool {
    error.starts_with("NOREPLICAS ") || error.starts_with("GRACE ") && halted_lately()
}

/// Returns by how many ms the server's wall clock is ahead of the machine's.
fn ahead(client: &mut Client) -> i64 {
    server_time(client) - wall_clock()
}

/// Sets the clock. Then alice acquires and extends locks now and then.
#[track_caller]
fn goes_on(seconds: i32) {
    let clock = WallClock::new();
    let (primary, _replica) = past_its_start(&clock);
    let mut client = primary.client();
    for round in 0..5 {
        insist(&mut client, &format!("LOCK.ACQUIRE held{round} OWNER alice PX 2000"));
        insist(&mut client, &format!("PEXPIRE held{round} 600000"));
    }
    assert!(ahead(&mut client).abs() < 1000);
    clock.set(seconds);
    wait_for("the server's clock", || (ahead(&mut client) - i64::from(seconds) * 1000).abs() < 1000);
    let mut refused = Vec::new();
    for round in 0..5 {
        let take = format!("LOCK.ACQUIRE k{round} OWNER alice PX 2000");
        let extend = format!("LOCK.EXTEND held{round} alice PX 2000");
        for line in [take, extend] {
            // The server measures its replicas' silence by the clock that was set, so it may miss them for a second.
            let mut answer = Err("NOREPLICAS ".into());
            for _ in 0..5 {
                if answer.as_ref().is_err_and(|error: &String| excused(error)) {
                    let began = Instant::now();
                    wait_for("some quiet", || began.elapsed() > QUIET);
                    answer = client.send(&line);
                }
            }
            refused.extend(answer.err().map(|error| format!("{line}: {error}")));
        }
    }
    assert!(refused.is_empty(), "{} of 10 were refused: {refused:#?}", refused.len());
}

#[test]
fn a_clock_that_is_set_back_is_no_awakening() {
    goes_on(-STEP);
}

#[test]
fn a_clock_that_is_set_ahead_is_no_awakening() {
    goes_on(STEP);
}

#[test]
fn a_waiter_is_granted_though_the_clock_was_set_back() {
    let clock = WallClock::new();
    let (primary, _replica) = past_its_start(&clock);
    let mut client = primary.client();
    insist(&mut client, "LOCK.ACQUIRE k OWNER alice PX 2000");
    let mut bob = Waiter::new(&primary, "k", "OWNER bob");
    clock.set(-STEP);
    let began = Instant::now();
    wait_for("some quiet", || began.elapsed() > QUIET);
    insist(&mut client, "LOCK.RELEASE k alice");
    assert_eq!(bob.granted().owner, "bob");
}

#[test]
fn a_freeze_is_an_awakening_though_the_clock_was_set_back() {
    let clock = WallClock::new();
    let (primary, _replica) = past_its_start(&clock);
    let mut client = primary.client();
    clock.set(-STEP);
    insist(&mut client, "LOCK.ACQUIRE k PX 2000");
    while_stopped(&primary, || sleep(Duration::from_millis(1500)));
    wait_for("a refusal", || {
        let error = client.refused("LOCK.ACQUIRE free PX 2000");
        // At first, the replica may count as missing.
        assert!(error.starts_with("GRACE ") || error.starts_with("NOREPLICAS "), "{error}");
        error.starts_with("GRACE ")
    });
}
