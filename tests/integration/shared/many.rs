//! Ten thousand who wait for one lock to read: all are served, in their order, and never more at a time than the cap.

use redis::Value;

use super::{holds, readers, release, shown};
use crate::support::{Client, Mailbox, Server, grant, heard, owners};

const MANY: usize = 10_000;

/// The default of `lock.max-holders`.
const CAP: usize = 1000;

fn ask(owner: usize) -> String {
    format!("LOCK.ACQUIRE k OWNER {owner} ONCE SHARED PX 600000 BLOCK 0 NOTIFY ch")
}

/// Owners 0 and up take places behind a writer, who then gives the lock back.
#[track_caller]
fn queue_up(client: &mut Client) {
    holds(client, "w", "");
    let queued: Vec<String> = client.ask_all(&(0..MANY).map(ask).collect::<Vec<_>>());
    assert!(queued.iter().all(|reply| reply == "QUEUED"));
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k w"), 0);
}

/// The fence that the next one is told of, which must be that owner.
#[track_caller]
fn told(mail: &mut Mailbox, owner: usize) -> i64 {
    let text = mail.next();
    let words: Vec<_> = text.split(' ').collect();
    let ["granted", fence, who] = words[..] else { panic!("{owner}: {text}") };
    assert_eq!(who, owner.to_string());
    fence.parse().unwrap()
}

#[test]
fn places_are_served_in_their_order_with_at_most_the_cap() {
    let (_server, mut client, mut mail) = heard("claim 600000");
    queue_up(&mut client);
    let mut last = 0;
    for owner in 0..MANY {
        let fence = told(&mut mail, owner);
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        if owner % CAP == CAP - 1 {
            // So many hold it, and no more come until they go.
            assert_eq!(shown(&mut client, "holders"), CAP.to_string());
            let batch = owner + 1 - CAP..=owner;
            let claims: Vec<_> = batch.clone().map(ask).collect();
            assert!(client.ask_all::<Value, _>(&claims).into_iter().all(|reply| grant(reply).is_some()));
            assert_eq!(shown(&mut client, "waiters"), (MANY - 1 - owner).to_string());
            let releases: Vec<_> = batch.map(|owner| format!("LOCK.RELEASE k {owner}")).collect();
            assert!(client.ask_all::<i64, _>(&releases).iter().all(|left| *left == 0));
        }
    }
    assert_eq!(mail.rest(&mut client), [""; 0]);
    assert_eq!(client.holders("k"), []);
}

/// The steps of other clients do not go through all of them.
#[test]
fn many_places_of_one_owner_that_wait_to_upgrade_keep_nobody_up() {
    const PLACES: usize = 5_000;
    let (server, mut client) = Server::and_client();
    let _mailbox = Mailbox::of(&server, "ch");
    readers(&mut client, ["a", "b"]);
    for _ in 0..PLACES {
        client.ask::<()>("LOCK.ACQUIRE k OWNER a BLOCK 0 NOTIFY ch PX 600000");
    }
    let took = |client: &mut Client| -> f64 {
        let stats: String = client.ask("INFO commandstats");
        let line = stats.lines().find(|line| line.starts_with("cmdstat_lock.extend:")).unwrap().to_owned();
        line.split("usec_per_call=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap()
    };
    // The least of some: another process may have the processor during one.
    let each = (0..20).map(|_| {
        client.ask::<()>("CONFIG RESETSTAT");
        client.ask::<()>("LOCK.EXTEND k b PX 600000");
        took(&mut client)
    });
    let least = each.fold(f64::INFINITY, f64::min);
    // All of them would take 4 ms or more.
    assert!(least < 1_500.0, "{least} us");
    release(&mut client, "b");
    assert_eq!(shown(&mut client, "mode"), "exclusive");
    assert_eq!(owners(&mut client, "k").iter().filter(|owner| *owner != "a").count(), 0);
}
