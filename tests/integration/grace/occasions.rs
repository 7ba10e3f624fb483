//! `lock.failover-grace`: after a start, a promotion or a freeze, nothing new is granted for a while.

use std::time::{Duration, Instant};

use crate::support::{
    Client, PATIENCE, Server, Setup, Stopwatch, Waiter, WallClock, halted_lately, lease_end_after,
    server_time, soon, transaction, wait_for, wait_until, while_stopped,
};

/// For how many seconds servers are stopped here, by their own clocks.
const FREEZE: i32 = 100;

/// How long a server stands still in tests whose clock is not set, so that it counts as a freeze.
const A_WHILE: Duration = Duration::from_millis(1500);

/// Returns for how many ms nothing new is granted yet, from the refusal.
#[track_caller]
fn left(client: &mut Client) -> i64 {
    told(&client.refused("LOCK.ACQUIRE free"))
}

#[track_caller]
fn told(error: &str) -> i64 {
    let number = error.strip_prefix("GRACE new grants resume in ").and_then(|rest| rest.strip_suffix(" ms"));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{error}"))
}

fn with_grace(ms: i64) -> Setup {
    Setup::new().module_args(&format!("failover-grace {ms}"))
}

/// Returns a server with this grace whose start is over, and its clock.
fn past_its_start(setup: Setup) -> (Server, WallClock) {
    let clock = WallClock::new();
    let (server, mut client) = clock.of(setup).start_and_client();
    wait_for("the end of the grace", || client.send("LOCK.ACQUIRE first").is_ok());
    client.ask::<()>("LOCK.BREAK first");
    (server, clock)
}

/// Returns a file with two locks of alice, one of them held twice.
fn file_with_locks() -> Vec<u8> {
    let (server, mut client) = Server::and_client();
    client.acquire("held", "OWNER alice PX 600000").unwrap();
    client.acquire("held", "OWNER alice").unwrap();
    client.acquire("other", "OWNER alice PX 600000").unwrap();
    client.ask::<()>("SAVE");
    std::fs::read(server.folder().join("dump.rdb")).unwrap()
}

/// Checks what continues in a grace, and what does not.
#[track_caller]
fn holders_go_on(server: &Server) {
    let mut client = server.client();
    let fence = client.holder("held").unwrap().fence;
    let again = client.acquire("held", "OWNER alice PX 700000").unwrap();
    assert_eq!((again.fence, again.holds), (fence, 3));
    assert_eq!(client.acquire("held", "OWNER alice ONCE BLOCK 0").unwrap().holds, 3);
    assert_eq!(client.acquire("held", "OWNER alice SESSION PX 700000").unwrap().holds, 4);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND held alice PX 800000"), 800_000);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE held alice FENCE {fence}")), 3);
    assert_eq!(client.acquire("held", "OWNER bob"), None, "of a held lock it is said who holds it");
    let waiter = Waiter::new(server, "held", "OWNER bob");
    let next = Waiter::new(server, "other", "OWNER carol");
    assert_eq!(client.ask::<i64>("LOCK.RELEASE held alice ALL"), 0);
    assert_eq!(client.ask::<i64>("LOCK.BREAK other"), 1);
    for key in ["held", "other", "free"] {
        let before = client.snapshot();
        told(&client.refused(&format!("LOCK.ACQUIRE {key} OWNER alice")));
        told(&transaction(&mut client, &[&format!("LOCK.ACQUIRE {key} BLOCK 0")])[0].clone().unwrap_err());
        let script = "return redis.call('LOCK.ACQUIRE', KEYS[1])";
        let error = client.send_words(["EVAL", script, "1", key]).unwrap_err();
        assert!(error.starts_with("GRACE new grants resume in "), "{error}");
        assert_eq!(client.snapshot(), before, "{key}");
        assert_eq!(client.holder(key), None);
    }
    for waiter in [waiter, next] {
        assert!(waiter.is_blocked(&mut client));
    }
}

/// Starts a waiter for a free lock. It must be granted at the end of the grace, not before.
#[track_caller]
fn granted_at_its_end(server: &Server) {
    let watch = Stopwatch::start();
    let mut client = server.client();
    let before = server_time(&mut client);
    let left = left(&mut client);
    let after = server_time(&mut client);
    let mut waiters = [
        Waiter::new(server, "k", "OWNER bob PX 600000"),
        Waiter::new(server, "k", "OWNER bob ONCE"),
        Waiter::new(server, "l", "OWNER carol"),
    ];
    let mut impatient = server.client();
    impatient.begin("LOCK.ACQUIRE k OWNER dave BLOCK 20");
    assert_eq!(impatient.finish(), Ok(redis::Value::Nil));
    assert_eq!((client.holder("k"), client.holder("l")), (None, None));
    wait_for("a grant", || client.holder("k").is_some());
    for waiter in &mut waiters {
        let grant = waiter.granted();
        let at = grant.granted_at();
        assert!(at >= before + left - 1, "{grant:?}: {} ms early", before + left - at);
        assert!(at < after + left + watch.allowed(), "{grant:?}: {} ms late", at - after - left);
    }
    assert_eq!(client.acquire("free", "").unwrap().holds, 1);
}

#[test]
fn without_the_setting_there_is_no_grace() {
    let (server, clock) = past_its_start(Setup::new());
    let mut client = server.client();
    assert_eq!(client.ask::<Vec<String>>("CONFIG GET lock.failover-grace")[1], "0");
    client.acquire("k", "PX 600000").unwrap();
    while_stopped(&server, || clock.pass(FREEZE));
    client.acquire("l", "").unwrap();
}

#[test]
fn a_start_begins_a_grace() {
    let server = with_grace(4000).start();
    let left = left(&mut server.client());
    assert!(left > 0 && left <= 4000, "{left}");
    granted_at_its_end(&server);
}

#[test]
fn holders_go_on_in_the_grace_after_a_start() {
    let server = with_grace(60_000).with_file("dump.rdb", file_with_locks()).start();
    let left = left(&mut server.client());
    assert!(left > 50_000 && left <= 60_000, "{left}");
    holders_go_on(&server);
}

#[test]
fn a_promotion_begins_a_grace() {
    let primary = Setup::new().with_file("dump.rdb", file_with_locks()).start();
    let replica = primary.replica_with(with_grace(60_000));
    let mut client = replica.client();
    // A grace that had begun with the start would now end earlier.
    let started = server_time(&mut client);
    wait_until(&mut client, started + 100);
    assert!(client.refused("LOCK.ACQUIRE free").starts_with("READONLY "));
    let promoted = Instant::now();
    client.ask::<()>("REPLICAOF NO ONE");
    let left = left(&mut client);
    let earliest = 60_000 - promoted.elapsed().as_millis() as i64 - 2;
    assert!(left >= earliest && left <= 60_000, "{left}, not {earliest} to 60000");
    holders_go_on(&replica);
}

#[test]
fn an_awakening_begins_a_grace() {
    let (server, clock) = past_its_start(with_grace(3000));
    while_stopped(&server, || clock.pass(FREEZE));
    granted_at_its_end(&server);
}

#[test]
fn a_lease_that_ended_in_a_freeze_passes_to_nobody_before_the_grace_is_over() {
    let (server, clock) = past_its_start(with_grace(1000));
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 50000").unwrap();
    client.acquire("held", "OWNER alice PX 600000").unwrap();
    let mut waiters: Vec<_> = (0..3).map(|n| Waiter::new(&server, "k", &format!("OWNER w{n}"))).collect();
    let mut patient = Waiter::new(&server, "held", "OWNER bob");
    let mut newcomer = server.client();
    let watch = Stopwatch::start();
    let frozen = server_time(&mut client);
    // A frozen server finds these commands all at once when it wakes up, together with the end of the lease.
    while_stopped(&server, || {
        newcomer.begin("LOCK.ACQUIRE k OWNER newcomer");
        clock.pass(FREEZE);
    });
    told(&newcomer.finish().unwrap_err());
    assert_eq!(client.ask::<i64>("LOCK.RELEASE held alice"), 0);
    wait_for("a grant", || client.holder("k").is_some());
    let thawed = frozen + i64::from(FREEZE) * 1000;
    for grant in [waiters[0].granted(), patient.granted()] {
        assert!(grant.granted_at() >= thawed + 1000, "{grant:?} after {thawed}");
        assert!(grant.granted_at() < thawed + 1500 + watch.allowed(), "{grant:?} after {thawed}");
    }
    client.ask::<i64>("LOCK.BREAK k");
    assert_eq!(waiters[1].granted().owner, "w1");
}

#[test]
fn a_short_freeze_is_no_awakening() {
    let (server, clock) = past_its_start(with_grace(1000));
    while_stopped(&server, || clock.pass(0.2));
    let mut client = server.client();
    // On a busy machine, even this freeze may have been long.
    wait_for("a grant", || {
        let reply = client.send("LOCK.ACQUIRE k");
        assert!(reply.is_ok() || halted_lately(), "{reply:?}");
        reply.is_ok()
    });
}

/// A server that runs a long script does not answer clients, but it knows that it did not stand still.
#[test]
fn a_busy_script_is_no_awakening() {
    const SCRIPT: &str =
        "for _ = 1, tonumber(ARGV[1]) do end return redis.call('LOCK.ACQUIRE', KEYS[1], 'PX', '1')";
    let (server, _clock) = past_its_start(with_grace(1000));
    let mut client = server.client();
    client.set_patience(4 * PATIENCE);
    let (mut rounds, mut tries) = (5e6, 0);
    while tries < 3 {
        let began = Instant::now();
        // This command makes the server check whether it stood still, so idle time before does not count.
        let _ = client.send("LOCK.ACQUIRE before PX 1");
        let before = processor_time(&server);
        let reply = client.send_words(["EVAL", SCRIPT, "1", "script", &rounds.to_string()]);
        let after = client.send("LOCK.ACQUIRE after PX 1");
        let ran = processor_time(&server) - before;
        if ran < A_WHILE {
            // The script is made only as long as needed: on a busy machine, it takes several times its processor time.
            rounds *= (1.2 * A_WHILE.as_secs_f64() / ran.as_secs_f64()).min(8.0);
            continue;
        }
        if began.elapsed() < ran + Duration::from_millis(700) {
            reply.unwrap();
            after.unwrap();
            return;
        }
        tries += 1;
    }
    // The server had to wait for the processor, so it did stand still.
    println!("skipped: this machine is too busy to tell");
}

/// Returns how long the server's main thread has run.
fn processor_time(server: &Server) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", server.pid())).unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_grace_that_is_switched_off_is_over_for_waiters_too() {
    let server = with_grace(60_000).start();
    let mut client = server.client();
    let mut waiter = Waiter::new(&server, "k", "OWNER bob");
    // The server has checked by now, and found that it is too early.
    let began = server_time(&mut client);
    wait_until(&mut client, began + 20);
    left(&mut client);
    client.ask::<()>("CONFIG SET lock.failover-grace 0");
    client.acquire("other", "").unwrap();
    soon("a grant", || client.holder("k").is_some());
    assert_eq!(waiter.granted().owner, "bob");
}

/// Without a replica that keeps up, the server refuses writes, and a primary that comes back from a freeze may have lost its replica.
#[track_caller]
fn no_grant_without_the_replica(setup: Setup) {
    let (primary, clock) = past_its_start(setup.set("min-replicas-max-lag", "10"));
    let replica = primary.replica();
    let mut client = primary.client();
    client.ask::<()>("CONFIG SET min-replicas-to-write 1");
    wait_for("the replica to count", || client.send("LOCK.ACQUIRE first PX 1").is_ok());
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut waiter = Waiter::new(&primary, "k", "OWNER bob PX 600000");
    let ends = lease_end_after(&mut client, "k", &["LOCK.EXTEND k alice PX 50000"]);
    while_stopped(&primary, || {
        drop(replica);
        clock.pass(FREEZE);
    });
    // A command may come before the server has noticed the end of its replica's connection.
    wait_for("the replica's end", || client.info("replication", "connected_slaves") == "0");
    let error = client.refused("LOCK.ACQUIRE free");
    assert!(error.starts_with("NOREPLICAS "), "{error}");
    // In this time, the server tries again a few times.
    let began = Instant::now();
    wait_for("a while", || {
        assert_eq!(client.holder("k"), None);
        began.elapsed() > A_WHILE
    });
    assert!(server_time(&mut client) > ends);
    assert!(waiter.is_blocked(&mut client));
    let _replica = primary.replica();
    wait_for("a grant", || client.holder("k").is_some());
    assert_eq!(waiter.granted().owner, "bob");
}

#[test]
fn a_primary_that_lost_its_replica_in_a_freeze_grants_nothing() {
    no_grant_without_the_replica(Setup::new());
}

#[test]
fn a_primary_that_lost_its_replica_in_a_freeze_grants_nothing_after_the_grace() {
    no_grant_without_the_replica(with_grace(500));
}
