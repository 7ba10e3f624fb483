//! A waiter goes away in the step in which it gets the lock: the next one gets it, and nobody is told twice.

use redis::Value;

use crate::support::{
    Client, Server, Setup, Waiter, blocked_clients, grant, is_closed_by_client, lease_end_after, transaction,
    wait_for, wall_clock, while_stopped,
};

struct Queue {
    server: Server,
    client: Client,
    bob: Waiter,
    carol: Waiter,
}

/// Alice holds `k`; bob waits with these options, and carol after him.
#[track_caller]
fn queue_of(options: &str) -> Queue {
    let (server, client) = Server::held();
    let bob = Waiter::new(&server, "k", &format!("OWNER bob PX 60000 {options}"));
    let carol = Waiter::new(&server, "k", "OWNER carol PX 60000");
    Queue { server, client, bob, carol }
}

const OPTIONS: [&str; 3] = ["", "BLOCK 60000", "SESSION"];

/// Checks that carol holds the lock alone, and that nothing is left of the others.
#[track_caller]
fn carol_has_it(mut queue: Queue, what: &str) {
    let granted = queue.carol.granted();
    assert_eq!((&granted.owner[..], granted.holds), ("carol", 1), "{what}");
    let holder = queue.client.holder("k").unwrap();
    assert_eq!((&holder.owner[..], holder.fence, holder.holds), ("carol", granted.fence, 1), "{what}");
    assert_eq!(blocked_clients(&mut queue.client), 0, "{what}");
    assert_eq!(queue.client.ask::<i64>("LOCK.RELEASE k carol"), 0, "{what}");
    assert_eq!(queue.client.holder("k"), None, "{what}");
}

/// Here, an invalidation fills the output buffer of a client that caches while it waits. (On Redis a message would also do, but Valkey does
/// not block a subscriber.)
#[test]
fn a_waiter_whose_output_buffer_is_full_does_not_keep_the_lock() {
    for full_first in [false, true] {
        let setup = Setup::new().set("client-output-buffer-limit", "normal 100kb 0 0");
        let (server, mut client) = setup.start_and_client();
        client.acquire("k", "OWNER alice").unwrap();
        let long = "x".repeat(200_000);
        let mut bob = server.client_resp3();
        bob.ask::<()>("CLIENT TRACKING ON");
        bob.ask::<()>(&format!("EXISTS {long}"));
        bob.begin("LOCK.ACQUIRE k OWNER bob PX 60000 BLOCK 0");
        wait_for("bob to wait", || client.info("lock", "lock_waiters") == "1");
        let mut carol = Waiter::new(&server, "k", "OWNER carol PX 60000");
        let set = format!("SET {long} 1");
        let mut lines = ["LOCK.RELEASE k alice", &set];
        if full_first {
            lines.reverse();
        }
        transaction(&mut client, &lines);
        assert_eq!(carol.granted().owner, "carol", "full first: {full_first}");
        carol_has(&mut client, "the output buffer");
        drop(bob);
    }
}

#[track_caller]
fn carol_has(client: &mut Client, what: &str) {
    let holder = client.holder("k").unwrap();
    assert_eq!((&holder.owner[..], holder.holds, blocked_clients(client)), ("carol", 1, 0), "{what}");
}

/// When the server continues, the release has arrived and bob's connection has closed, in either order.
#[test]
fn a_waiter_closed_as_it_gets_the_lock_does_not_keep_it() {
    for options in OPTIONS {
        for closed_first in [false, true] {
            let Queue { server, mut client, bob, mut carol } = queue_of(options);
            let what = format!("{options}, closed first: {closed_first}");
            let line: String = client.ask(&format!("CLIENT LIST ID {}", bob.id));
            let address = line.split(' ').find_map(|field| field.strip_prefix("addr=127.0.0.1:"));
            let port = address.and_then(|port| port.parse().ok()).expect("bob's port");
            let close = |bob: Waiter| {
                drop(bob);
                wait_for("bob's connection to be closed", || is_closed_by_client(&server, port));
            };
            while_stopped(&server, || {
                if closed_first {
                    close(bob);
                    client.begin("LOCK.RELEASE k alice");
                } else {
                    client.begin("LOCK.RELEASE k alice");
                    close(bob);
                }
            });
            assert_eq!(client.finish(), Ok(Value::Int(0)));
            wait_for(&format!("carol's grant ({what})"), || client.holder("k").unwrap().owner == "carol");
            assert_eq!(grant(carol.client.finish().unwrap()).unwrap().owner, "carol");
            assert_eq!(blocked_clients(&mut client), 0);
        }
    }
}

/// Redis 7 with I/O threads runs what these have read after the timers. If this contains a `CLIENT UNBLOCK`, it asks the module again for
/// an answer that it has sent. The lock lapses, and the command comes, while the server is stopped.
#[test]
fn sent_away_as_if_its_time_were_up_when_it_got_the_lock_it_is_told_once() {
    let setup = Setup::new().set("io-threads", "2").set("io-threads-do-reads", "yes");
    let server = setup.start();
    let mut client = server.client();
    if client.version() >= (7, 4) || !client.info("server", "valkey_version").is_empty() {
        println!("skipped: told_once: Redis 7.0 and 7.2 only");
        return;
    }
    let mut others: Vec<Client> = (0..8).map(|_| server.client()).collect();
    let mut told = 0;
    for _ in 0..10 {
        client.acquire("k", "OWNER alice").unwrap();
        let mut bob = Waiter::new(&server, "k", "OWNER bob PX 60000");
        let ends = lease_end_after(&mut client, "k", &["LOCK.EXTEND k alice PX 150"]);
        // The threads start when many clients are answered at once, and stop when only a few are.
        while_stopped(&server, || others.iter_mut().for_each(|other| other.begin("PING")));
        others.iter_mut().for_each(|other| _ = other.finish());
        while_stopped(&server, || {
            wait_for("the end of the lease", || wall_clock() > ends + 2);
            client.begin(&format!("CLIENT UNBLOCK {} TIMEOUT", bob.id));
        });
        let unblocked = client.finish();
        assert_eq!(bob.granted().owner, "bob");
        told += usize::from(unblocked == Ok(Value::Int(1)));
        client.ask::<i64>("LOCK.RELEASE k bob");
    }
    assert!(told > 0, "not once in the same moment");
}

/// In one step, a grant of which nobody has been told is moved to another name and back: its waiter is told that it has ended, and the next
/// one gets the lock. `SWAPDB` of a database with itself moves nothing.
#[test]
fn a_waiter_whose_lock_moves_there_and_back_holds_nothing() {
    for options in ["", "SESSION"] {
        for there_and_back in [["RENAME k r", "RENAME r k"], ["SWAPDB 0 1", "SWAPDB 0 1"]] {
            let mut queue = queue_of(options);
            let [there, back] = there_and_back;
            transaction(&mut queue.client, &["LOCK.BREAK k", there, back]);
            assert_eq!(queue.bob.granted().lease, 0, "{options}, {there}");
            carol_has_it(queue, there);
        }
        let mut queue = queue_of(options);
        transaction(&mut queue.client, &["LOCK.BREAK k", "SWAPDB 0 0"]);
        let granted = queue.bob.granted();
        assert_eq!(queue.client.holder("k").map(|holder| holder.fence), Some(granted.fence), "{options}");
    }
}

/// A lease is shortened before its waiter is told of it, and a timer looks at the lock first: the waiter is told the shorter lease.
#[test]
fn a_waiter_is_told_that_its_lease_was_shortened() {
    for options in ["", "SESSION"] {
        let mut queue = queue_of(options);
        let ask = "LOCK.ACQUIRE k OWNER dave";
        transaction(&mut queue.client, &["FLUSHDB ASYNC", ask, "PEXPIRE k 20000"]);
        let lease = queue.bob.granted().lease;
        assert!((1..=20000).contains(&lease), "{options}: {lease}");
    }
}
