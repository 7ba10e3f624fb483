//! Numbers of permits, over anything that happens to a server: each answer is compared with a set of numbers.

use std::collections::BTreeMap;

use redis::Value;

use super::words;
use crate::support::{Client, Rng, Server, Setup, grant, size, wait_for};

/// Who holds the lock: the number of each owner's permit, and for how many holders it has room.
#[derive(Default)]
struct Holders(BTreeMap<String, (i64, i64)>);

#[derive(Debug, PartialEq)]
enum Answer {
    Slot(i64),
    Null,
    OtherSlot,
}

impl Holders {
    fn has(&self, slot: i64) -> bool {
        self.0.values().any(|(held, _)| *held == slot)
    }

    /// What an owner is answered that asks, and what there is from then on.
    fn acquire(&mut self, owner: &str, most: i64, asked: Option<i64>) -> Answer {
        let own = self.0.get(owner).copied();
        let others = self.0.iter().filter(|(other, _)| *other != owner);
        let least = others.clone().map(|(_, (_, most))| *most).chain([most]).min().unwrap();
        let has_room = (others.count() as i64) < least;
        let (slot, room) = match own {
            Some((slot, _)) if asked.map_or(slot > most, |asked| asked != slot) => return Answer::OtherSlot,
            Some((slot, before)) if most >= before => (slot, before),
            Some((slot, _)) => (slot, most),
            None if asked.is_some_and(|asked| self.has(asked)) => return Answer::Null,
            None => (asked.or_else(|| (1..).find(|slot| !self.has(*slot))).unwrap(), most),
        };
        if !has_room && own.is_none_or(|(_, before)| most < before) {
            return Answer::Null;
        }
        self.0.insert(owner.into(), (slot, room));
        Answer::Slot(slot)
    }
}

fn ask(client: &mut Client, owner: &str, options: &str) -> Answer {
    let reply = client.send(&format!("LOCK.ACQUIRE k {}", words(owner, options)));
    match reply {
        Ok(Value::Nil) => Answer::Null,
        Ok(reply) => Answer::Slot(grant(reply).unwrap().slot.unwrap()),
        Err(error) => {
            let is_known = |text| error.contains(text);
            assert!(is_known("can't have that slot") || is_known("above the LIMIT"), "{error}");
            Answer::OtherSlot
        }
    }
}

/// A client of a server that was a replica, maybe: it is one again after a restart.
fn primary(server: &Server) -> Client {
    let mut client = server.client();
    client.ask::<()>("REPLICAOF NO ONE");
    // Until then its file lacks what the primary sent, and it neither stops nor comes back with all.
    client.wait_for_rewrite();
    client
}

/// One lock with anybody's permits, while grants end in each way and the server dies, restarts, and is replaced by its replica.
#[test]
fn soak_the_least_number_that_nobody_has_whatever_happens() {
    let setup = Setup::new().set("appendonly", "yes").set("appendfsync", "always");
    let (mut rng, mut holders) = (Rng::new(), Holders::default());
    let mut server = setup.clone().start();
    let mut client = server.client();
    for _ in 0..size(400, 20_000) {
        let owner = format!("o{}", rng.below(9));
        let held = holders.0.contains_key(&owner);
        match rng.below(100) {
            0..60 => {
                let most = *rng.one_of(&[2, 4, 6, 8]);
                let asked = rng.percent(30).then(|| 1 + rng.below(most as usize) as i64);
                let slot = asked.map_or_else(String::new, |slot| format!("SLOT {slot}"));
                let once = if rng.percent(50) { "ONCE" } else { "" };
                let options = format!("LIMIT {most} {slot} {once}");
                let answer = ask(&mut client, &owner, &options);
                assert_eq!(
                    answer,
                    holders.acquire(&owner, most, asked),
                    "{owner} {options}: {:?}",
                    holders.0
                );
            }
            60..80 if held => {
                client.ask::<i64>(&format!("LOCK.RELEASE k {owner} ALL"));
                holders.0.remove(&owner);
            }
            80..86 if held => {
                let fence = client.held_by("k", &owner).unwrap().fence;
                client.ask::<i64>(&format!("LOCK.BREAK k FENCE {fence}"));
                holders.0.remove(&owner);
            }
            86..92 if held => {
                client.ask::<i64>(&format!("LOCK.EXTEND k {owner} PX 1"));
                wait_for("the lapse", || client.held_by("k", &owner).is_none());
                holders.0.remove(&owner);
            }
            92..94 if !holders.0.is_empty() => {
                client.ask::<()>("RENAME k l");
                client.ask::<()>("RENAME l k");
            }
            94 => {
                server.kill_and_restart();
                client = primary(&server);
            }
            95 => {
                server.save_and_restart();
                client = primary(&server);
            }
            96 => {
                let replica = server.replica_with(setup.clone());
                server.kill();
                server = replica;
                client = primary(&server);
            }
            _ => continue,
        }
        let shown = client.holders("k").into_iter().map(|one| (one.owner, (one.slot, one.limit)));
        assert_eq!(shown.collect::<BTreeMap<_, _>>(), holders.0);
    }
}
