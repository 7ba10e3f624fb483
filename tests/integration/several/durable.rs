//! Files: what several locks were granted by comes back as it was.

use super::{granted, holds, holds_one, release, waits};
use crate::support::in_each_kind_of_file;

#[test]
fn grants_come_back_from_each_kind_of_file() {
    in_each_kind_of_file(
        |client| {
            let mine = holds_one(client, "mine", "alice");
            let all = holds(client, "a mine b c", "alice", "");
            client.ask::<i64>("LOCK.MEXTEND 2 a b alice PX 900000");
            release(client, "c mine", "alice");
            assert_eq!(all.fences[1], mine);
            let readers = ["r1", "r2"].map(|owner| holds(client, "x y", owner, "SHARED").fences[0]);
            let snapshot = client.snapshot();
            (all, readers, snapshot.leases, snapshot.digest)
        },
        |server, (all, readers, leases, digest)| {
            let mut client = server.client();
            let snapshot = client.snapshot();
            assert_eq!((snapshot.leases, snapshot.digest), (leases, digest));
            let again = holds(&mut client, "mine a b", "alice", "ONCE");
            assert_eq!(again.fences, [all.fences[1], all.fences[0], all.fences[2]]);
            assert_eq!(again.holds, [1, 1, 1]);
            assert!(again.lease <= 600_000 && client.holder("a").unwrap().lease > 800_000);
            for (owner, fence) in ["r1", "r2"].into_iter().zip(readers) {
                assert_eq!(holds(&mut client, "y x", owner, "SHARED ONCE").fences, [fence; 2]);
            }
            assert!(holds(&mut client, "new", "bob", "").fences[0] > readers[1]);
            let mut waiter = waits(server, "a c b", "bob", "");
            assert_eq!(client.ask::<Vec<i64>>("LOCK.MRELEASE 3 a b mine alice ALL"), [0, 0, 0]);
            granted(&mut waiter);
        },
    );
}
