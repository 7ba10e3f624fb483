//! Attacks by `DETECT`: much to look at in one search.

use super::requests::{CHANNEL, LEASE, acquire, acquire_all, names};
use super::stage::Row;
use crate::resp::{owner, request};
use crate::rounds::Plan;

/// The holders of the lock that is asked for.
const HOLDERS: usize = 1000;

/// One of many names that have one hash in a table of `foldhash` 0.2 with a fixed seed: 0, whatever the number is.
///
/// A name of 16 bytes is folded by multiplying two words: its first eight bytes, mixed with a state, by its last eight, mixed
/// with the second seed. That seed is a constant where the seed of the table is fixed; so whoever ends its name with it makes
/// the product 0. The eight bytes before it are free.
fn name_of_hash_0(number: usize) -> Vec<u8> {
    const SECOND_SEED: u64 = 0x3f84_d5b5_b547_0917;
    [format!("{number:08}").as_bytes(), &SECOND_SEED.to_le_bytes()].concat()
}

fn name_as_it_comes(number: usize) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

/// For each holder the search asks where else it waits.
fn of_names(places: usize, how: &str, name: fn(usize) -> Vec<u8>) -> Row {
    let what = format!("DETECT with {HOLDERS} holders and {places} places, owners' names {how}");
    Row::new(what, move |stage| {
        let ask = |key: &[u8], number, more: &[&[u8]]| {
            let name = name(number);
            let head = [b"LOCK.ACQUIRE", key, b"OWNER", &name, b"PX", LEASE.as_bytes()];
            request(&[&head, more].concat())
        };
        let place: [&[u8]; 4] = [b"BLOCK", b"0", b"NOTIFY", CHANNEL.as_bytes()];
        let holders = stage.holders(HOLDERS, 0);
        stage.all((0..holders).map(|number| ask(b"k", number, &[b"SHARED"])))?;
        stage.ask(&acquire("other", "holder", ""))?;
        stage.take_places((HOLDERS..HOLDERS + places).map(|number| ask(b"other", number, &place)))?;
        stage.attack_by(&acquire("k", "asker", &format!("BLOCK 0 NOTIFY {CHANNEL} DETECT")))
    })
}

/// The search comes to a waiter that needs many locks, and looks at the holders of each.
fn behind_several(keys: usize, holders: usize) -> Row {
    let what = format!("DETECT behind a waiter for {keys} locks with {holders} holders each");
    Row::new(what, move |stage| {
        let (keys, holders) = (names("k", keys), stage.holders(holders, 0));
        // The first has but one holder: the search is to come to the waiter.
        let held = |number| acquire_all(&keys[1..], &format!("OWNER {} SHARED PX {LEASE}", owner(number)));
        stage.all((0..holders).map(held))?;
        stage.ask(&acquire(&keys[0], "holder", "SHARED"))?;
        stage.ask(&acquire_all(&keys, &format!("OWNER waiter BLOCK 0 NOTIFY {CHANNEL}")))?;
        stage.attack_by(&acquire(&keys[0], "asker", &format!("BLOCK 0 NOTIFY {CHANNEL} DETECT")))
    })
}

pub(super) fn rows(plan: &Plan) -> Vec<Row> {
    let both = |places| {
        [of_names(places, "of one hash", name_of_hash_0), of_names(places, "as they come", name_as_it_comes)]
    };
    plan.pick(vec![10_000, 60_000], vec![10_000]).into_iter().flat_map(both).collect()
}

pub(super) fn rows_of(plan: &Plan, keys: usize) -> Vec<Row> {
    plan.pick(vec![100, 500], vec![100]).into_iter().map(|holders| behind_several(keys, holders)).collect()
}
