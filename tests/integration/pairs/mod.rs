//! Tests every ordered pair of commands in one turn of the server, with each kind of waiter. Afterwards, each holder must have been told,
//! no client that is gone holds, nobody waits for a free lock, and the replica and the reloaded file agree with the server.
//!
//! `table` has the commands, `scene` plays a case, `rules` checks it. By default, one case in [`SAMPLE`] is played; with
//! `REDISLOCK_PAIRS=all`, all are.

mod rules;
mod scene;
mod table;

use std::collections::BTreeSet;
use std::env;
use std::fs;

use crate::support::{Client, SOON, Server, Setup, Stopwatch, figure, wait_for};
use scene::Scene;
use table::{Case, Kind};

/// This number has no common factor with the numbers of commands and ways, so the sample contains all of them.
const SAMPLE: usize = 17;

/// How many cases run between two checks of the file; fewer in batches with cases that may delete the locks of others.
const BATCHES: [usize; 2] = [400, 40];

/// After this many faults, the test stops.
const MOST_FAULTS: usize = 10;

fn setup() -> Setup {
    Setup::new().module_args("claim 600000").set("appendonly", "yes").set("appendfsync", "no")
}

fn play(kind: Kind) {
    let step = if env::var("REDISLOCK_PAIRS").is_ok_and(|which| which == "all") { 1 } else { SAMPLE };
    let cases: Vec<Case> = table::cases(kind).into_iter().step_by(step).collect();
    let server = setup().start();
    let replica = server.replica();
    let (mut faults, watch) = (Vec::new(), Stopwatch::start());
    for (all, size) in cases.chunk_by(|one, next| one.wipes() == next.wipes()).zip(BATCHES) {
        for batch in all.chunks(size) {
            if faults.len() < MOST_FAULTS {
                faults.extend(play_batch(batch, &server, &replica));
            }
        }
    }
    figure("pairs", format_args!("{} cases in {:?}", cases.len(), watch.elapsed()));
    assert!(faults.is_empty(), "{} faults:\n\n{}", faults.len(), faults.join("\n\n"));
}

/// Plays the cases. Returns the faults.
fn play_batch(batch: &[Case], server: &Server, replica: &Server) -> Vec<String> {
    let mut faults = Vec::new();
    let (mut client, mut copy) = (server.client(), replica.client());
    let mut scene = Scene::new(server);
    for (number, case) in batch.iter().enumerate() {
        faults.extend(scene.play(case, number).err());
        if case.wipes() {
            faults.extend(agree("replica", &mut client, &mut copy, batch).err());
        }
        if faults.len() >= MOST_FAULTS {
            return faults;
        }
    }
    drop(scene);
    wait_for("the end of all waiters and sessions", || {
        ["lock_waiters", "lock_sessions"].iter().all(|field| client.info("lock", field) == "0")
    });
    faults.extend(agree("replica", &mut client, &mut copy, batch).err());
    let files = fs::read_dir(server.folder().join("appendonlydir")).unwrap();
    let reloaded = files.fold(setup(), |setup, file| {
        let path = file.unwrap().path();
        setup.with_file(path.strip_prefix(server.folder()).unwrap(), fs::read(&path).unwrap())
    });
    faults.extend(agree("reloaded file", &mut client, &mut reloaded.start().client(), batch).err());
    client.ask::<()>("FLUSHALL");
    client.rewrite_aof();
    faults
}

/// Waits, for a limited time, until both servers have the same contents.
fn agree(what: &str, client: &mut Client, other: &mut Client, batch: &[Case]) -> Result<(), String> {
    let watch = Stopwatch::start();
    loop {
        let [one, other] = [&mut *client, &mut *other].map(contents);
        let differ: BTreeSet<_> = one.symmetric_difference(&other).collect();
        let Some((_, key, _)) = differ.first() else { return Ok(()) };
        if watch.worked() > SOON {
            let number = key.rsplit('.').next().and_then(|number| number.parse::<usize>().ok());
            let case = number.and_then(|number| batch.get(number)).map_or(String::new(), Case::to_string);
            return Err(format!("the {what} differs in {differ:?}, first of all after\n{case}"));
        }
    }
}

/// Returns each key of both databases with its contents and its expiry.
fn contents(client: &mut Client) -> BTreeSet<(i64, String, String)> {
    let mut all = BTreeSet::new();
    for db in [1, 0] {
        client.ask::<()>(&format!("SELECT {db}"));
        let keys: Vec<String> = client.ask("KEYS *");
        let lines = keys
            .iter()
            .flat_map(|key| ["DEBUG DIGEST-VALUE", "PEXPIRETIME"].map(|line| format!("{line} {key}")));
        let values = client.send_all(&lines.collect::<Vec<_>>());
        all.extend(
            keys.into_iter().zip(values.chunks(2)).map(|(key, values)| (db, key, format!("{values:?}"))),
        );
    }
    all
}

macro_rules! kinds {
    ($($name:ident: $holds:literal, $waits:literal;)*) => {
        $(
            #[test]
            fn $name() {
                play(Kind { holds: $holds, waits: $waits });
            }
        )*
    };
}

// With `LIMIT`, bob has the other slot. With `SYNC`, there is one replica.
kinds! {
    block: "", "LOCK.ACQUIRE k OWNER {w} PX 600000 BLOCK 0";
    notify: "", "LOCK.ACQUIRE k OWNER {w} PX 600000 BLOCK 0 NOTIFY ch ONCE";
    start: "", "LOCK.ACQUIRE k OWNER {w} PX 600000 BLOCK 0 NOTIFY ch START 1 ONCE";
    shared: "", "LOCK.ACQUIRE k OWNER {w} PX 600000 BLOCK 0 SHARED";
    limit: "LIMIT 2 SESSION", "LOCK.ACQUIRE k OWNER {w} PX 600000 BLOCK 0 LIMIT 2";
    several: "", "LOCK.MACQUIRE 2 k j OWNER {w} PX 600000 BLOCK 0";
    session: "SESSION", "LOCK.ACQUIRE k OWNER {w} PX 600000 BLOCK 0 SESSION";
    sync: "", "LOCK.ACQUIRE k OWNER {w} PX 600000 BLOCK 0 SYNC 1 600000";
}
