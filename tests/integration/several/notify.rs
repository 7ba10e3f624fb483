//! `NOTIFY`: told once of all, and claimed all together.

use redis::Value;

use super::{ask, count, free, gets_null, grants, holders, holds, holds_one, release, waits};
use crate::support::{Client, grant, heard, owners, wait_for};

/// Asks by `NOTIFY ch`.
#[track_caller]
fn notify(client: &mut Client, keys: &str, owner: &str, options: &str) -> Value {
    client.ask(&ask(keys, owner, &format!("{options} ONCE NOTIFY ch")))
}

#[track_caller]
fn queue_up(client: &mut Client, keys: &str, owner: &str, options: &str) {
    let reply = notify(client, keys, owner, &format!("{options} BLOCK 600000"));
    assert_eq!(reply, Value::SimpleString("QUEUED".into()), "{keys} {owner}");
}

#[test]
fn one_message_and_one_claim() {
    let (_server, mut client, mut mail) = heard("claim 600000");
    holds(&mut client, "a b", "alice", "");
    queue_up(&mut client, "b a c", "bob", "");
    assert_eq!((count(&mut client, "lock_places"), count(&mut client, "lock_waiters")), (1, 1));
    for key in ["a", "b"] {
        assert_eq!(owners(&mut client, key), ["bob"]);
    }
    gets_null(&mut client, "LOCK.ACQUIRE c OWNER late");
    free(&mut client, "a", "alice");
    assert_eq!(mail.rest(&mut client), [""; 0]);
    free(&mut client, "b", "alice");
    wait_for("the grant", || holders(&mut client, ["a", "b", "c"]) == ["bob"; 3]);
    let fence = client.holder("a").unwrap().fence;
    assert_eq!(mail.next(), format!("granted {fence} bob"));
    let all = grants(notify(&mut client, "a b c", "bob", "PX 700000")).unwrap();
    assert_eq!((all.fences, all.holds, all.lease), (vec![fence; 3], vec![1; 3], 700_000));
    assert_eq!((count(&mut client, "lock_places"), count(&mut client, "lock_waiters")), (0, 0));
    assert_eq!(mail.rest(&mut client), [""; 0]);
    assert_eq!(release(&mut client, "a b c", "bob"), [Some(0); 3]);
}

/// Nothing of them is left to lapse: the whole goes to the next.
#[test]
fn what_is_not_claimed_goes_to_the_next() {
    let (server, mut client, mut mail) = heard("claim 300");
    holds(&mut client, "a b", "alice", "");
    queue_up(&mut client, "a b", "gone", "");
    let mut next = waits(&server, "b a", "next", "");
    release(&mut client, "a b", "alice");
    let told = mail.next();
    let fence: i64 = told.split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(told, format!("granted {fence} gone"));
    let got = grants(next.client.finish().unwrap()).unwrap();
    assert!(got.fences[0] / 1000 >= fence / 1000 + 300, "not early");
    let lost = format!("lost {fence} gone");
    assert_eq!([mail.next(), mail.next()], [&lost[..]; 2], "each of the locks");
    assert_eq!(mail.rest(&mut client), [""; 0]);
    wait_for("the place to be given up", || count(&mut client, "lock_places") == 0);
    // It may come late: then it is an ask like any other.
    assert_eq!(notify(&mut client, "a b", "gone", ""), Value::Nil);
}

/// A client that claims one of them knows of all: it hears of those that wait for any.
#[test]
fn a_claim_of_one_tells_who_waits_for_the_others() {
    let (server, mut client, mut mail) = heard("claim 30000");
    holds(&mut client, "a b", "alice", "");
    queue_up(&mut client, "a b", "bob", "WANTED");
    release(&mut client, "a b", "alice");
    let told = mail.next();
    let fence: i64 = told.split(' ').nth(1).unwrap().parse().unwrap();
    let _carol = waits(&server, "b", "carol", "");
    assert_eq!(mail.rest(&mut client), [""; 0], "bob may not know yet of what he is to give up");
    client.ask::<i64>("LOCK.EXTEND a bob PX 600000");
    assert_eq!(mail.next(), format!("wanted {fence} bob"));
}

#[test]
fn an_extension_is_a_claim() {
    let (_server, mut client, mut mail) = heard("claim 30000");
    for line in ["LOCK.MEXTEND 2 a b bob PX 600000", "LOCK.MEXTEND 2 b a bob PX 600000"] {
        holds(&mut client, "a b", "alice", "");
        queue_up(&mut client, "a b", "bob", "");
        release(&mut client, "a b", "alice");
        mail.next();
        assert_eq!(count(&mut client, "lock_places"), 1);
        assert_eq!(client.ask::<i64>(line), 600_000);
        assert_eq!(count(&mut client, "lock_places"), 0);
        assert_eq!(client.ask::<i64>("LOCK.LEAVE a bob"), 0);
        release(&mut client, "a b", "bob");
    }
}

/// A place of one lock and one of several are different asks.
#[test]
fn a_claim_of_one_lock_alone() {
    let (_server, mut client, mut mail) = heard("claim 600000");
    holds_one(&mut client, "a", "alice");
    queue_up(&mut client, "a", "bob", "");
    assert_eq!(client.ask::<String>("LOCK.ACQUIRE a OWNER carol PX 600000 ONCE BLOCK 0 NOTIFY ch"), "QUEUED");
    free(&mut client, "a", "alice");
    assert!(mail.next().ends_with(" bob"));
    assert_eq!(grants(notify(&mut client, "a", "bob", "")).unwrap().holds, [1]);
    free(&mut client, "a", "bob");
    assert!(mail.next().ends_with(" carol"));
    assert_eq!(grant(client.ask("LOCK.ACQUIRE a OWNER carol ONCE")).unwrap().holds, 1);
    assert_eq!(count(&mut client, "lock_places"), 0);
}

/// One of them is lost before the claim: that is granted anew, if it is free.
#[test]
fn what_is_lost_before_the_claim_is_asked_for_again() {
    let (_server, mut client, mut mail) = heard("claim 600000");
    for next in ["-", "carol"] {
        holds(&mut client, "a b", "alice", "");
        queue_up(&mut client, "a b", "bob", "");
        release(&mut client, "a b", "alice");
        let told = mail.next();
        let fence: i64 = told.split(' ').nth(1).unwrap().parse().unwrap();
        client.ask::<i64>("DEL b");
        assert_eq!(mail.next(), format!("lost {fence} bob"));
        if next == "carol" {
            holds_one(&mut client, "b", "carol");
            queue_up(&mut client, "b a", "bob", "");
            free(&mut client, "b", "carol");
            assert!(mail.next().ends_with(" bob"));
        }
        let all = grants(notify(&mut client, "a b", "bob", "BLOCK 600000")).unwrap();
        assert!(all.fences[0] == fence && all.fences[1] > fence && all.holds == [1, 1], "{next}: {all:?}");
        assert_eq!(release(&mut client, "a b", "bob"), [Some(0); 2], "{next}");
        assert_eq!(count(&mut client, "lock_places"), 0, "{next}");
        mail.rest(&mut client);
    }
}
