//! A lock with a hundred grants of all kinds, and a comparison with its copy on another server.

use crate::support::{Client, Holder, transaction};
use redis::Value;

use crate::support::convert;

pub(crate) const COUNT: usize = 100;

/// A grant, and the times between which its lease ends, in ms since 1970; `None`: the lease has no end.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) holder: Holder,
    ends: Option<(i64, i64)>,
}

/// Acquires `key` a hundred times: owners are names, UUIDs and any bytes, each with one to three holds and its own lease, some with a
/// maximum age.
#[track_caller]
pub(crate) fn take(client: &mut Client, key: &str) {
    for number in 0..COUNT {
        let room = ["SHARED", "LIMIT 200", "LIMIT 101"][number % 3];
        let lease = 600_000 + 1000 * number;
        let age = if number % 10 == 3 { "MAXHOLD 650000" } else { "" };
        let owner = match number % 4 {
            0 => String::new(),
            1 => format!("OWNER %\u{fc}\0{number}"),
            _ => format!("OWNER owner{number}"),
        };
        let granted = client.acquire(key, &format!("{owner} PX {lease} {age} {room}")).expect("room for it");
        for _ in 0..number % 3 {
            client.acquire(key, &format!("OWNER {} {room}", granted.owner)).unwrap();
        }
    }
}

/// Returns everything that is known of a lock's grants.
#[track_caller]
pub(crate) fn kept(client: &mut Client, key: &str) -> Vec<Kept> {
    let look = |client: &mut Client| -> (i64, i64) { client.ask("TIME") };
    let millis = |(seconds, micros): (i64, i64)| seconds * 1000 + micros / 1000;
    let before = millis(look(client));
    let holders = client.holders(key);
    let after = millis(look(client));
    let kept = holders.into_iter().map(|holder| {
        let by = |look: i64| look.saturating_add(holder.lease);
        let ends = Some((by(before), by(after))).filter(|_| holder.lease >= 0);
        Kept { holder, ends }
    });
    kept.collect()
}

/// Panics if two lists of grants differ: in owners, fences, holds and room, or in leases, as far as this can be measured.
#[track_caller]
pub(crate) fn assert_same(now: &[Kept], before: &[Kept]) {
    assert_same_but_for(now, before, 0);
}

/// As `assert_same`, but all leases may end later by up to `later` ms, all by the same time.
#[track_caller]
pub(crate) fn assert_same_but_for(now: &[Kept], before: &[Kept], later: i64) {
    let lasting = |all: &[Kept]| -> Vec<(String, i64, i64, i64, i64)> {
        let of = |kept: &Kept| {
            let (owner, fence, holds, limit) = kept.holder.lasting();
            (owner.into(), fence, holds, limit, kept.holder.slot)
        };
        all.iter().map(of).collect()
    };
    assert_eq!(lasting(now), lasting(before));
    for (now, before) in now.iter().zip(before) {
        let same = match (now.ends, before.ends) {
            (Some((low, high)), Some((least, most))) => {
                low <= most.saturating_add(1 + later) && least <= high.saturating_add(1)
            }
            (None, None) => true,
            _ => false,
        };
        assert!(same, "another lease: {now:?}, before {before:?}");
    }
    // `LOCK.INFO` shows all leases as of one moment, so the differences between them must be equal.
    let apart = |all: &[Kept]| -> Vec<i64> {
        let ends: Vec<i64> =
            all.iter().filter(|kept| kept.ends.is_some()).map(|kept| kept.holder.lease).collect();
        ends.iter().map(|lease| lease - ends[0]).collect()
    };
    assert_eq!(apart(now), apart(before));
}

/// Checks that the lock also works: its owners can release it, requests that do not fit get null, and the next fence is greater than all.
#[track_caller]
pub(crate) fn works(client: &mut Client, key: &str) {
    let before = client.holders(key);
    assert_eq!(before.len(), COUNT);
    let last = before.last().unwrap().fence;
    assert_eq!(client.acquire(key, "OWNER writer"), None);
    assert_eq!(client.acquire(key, "OWNER narrow LIMIT 100"), None);
    let fits = client.acquire(key, "OWNER wide LIMIT 101").expect("room for one more");
    assert!(fits.fence > last);
    assert_eq!(client.acquire(key, "OWNER wider SHARED"), None);
    for holder in &before {
        let words = ["LOCK.RELEASE", key, &holder.owner, "ALL", "FENCE", &holder.fence.to_string()];
        assert_eq!(client.ask_words::<i64, _>(words), 0, "{holder:?}");
    }
    assert_eq!(client.holding(key), ["wide"]);
    assert_eq!(client.acquire(key, "OWNER wide").unwrap().fence, fits.fence, "an upgrade");
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE {key} wide ALL")), 0);
    assert_eq!(client.ask::<i64>(&format!("EXISTS {key}")), 0);
}

/// Returns the key's digest, type and expiry, read in one step.
#[track_caller]
pub(crate) fn state(client: &mut Client, key: &str) -> (String, i64) {
    let replies = transaction(client, &[&format!("DEBUG DIGEST-VALUE {key}"), &format!("PEXPIRETIME {key}")]);
    let [digest, ends]: [Value; 2] =
        replies.into_iter().map(Result::unwrap).collect::<Vec<_>>().try_into().unwrap();
    (convert::<Vec<String>>(digest).remove(0), convert(ends))
}
