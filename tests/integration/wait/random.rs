//! Anything at any time: many clients do what they like, and in the end no lock is free that somebody waits for.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use crate::support::{
    Client, Link, Outcome, PATIENCE, Rng, Server, Setup, blocked_clients, grant, queue, wait_for,
};

const KEYS: [&str; 3] = ["a", "b", "c"];
const DATABASES: [u32; 2] = [0, 1];
const CLIENTS: usize = 8;
const LENGTH: Duration = Duration::from_secs(4);

/// What the clients know of each other.
struct Shared {
    ids: Mutex<Vec<i64>>,
    grants: Mutex<Vec<i64>>,
    waited: AtomicI64,
    over: AtomicBool,
}

/// Each grant is told once, with a fence of its own; a re-entry has the fence of the grant.
fn note(shared: &Shared, reply: Value) {
    if let Some(granted) = grant(reply).filter(|granted| granted.holds == 1) {
        shared.grants.lock().unwrap().push(granted.fence);
    }
}

fn one_step(random: &mut Rng, client: &mut Link, shared: &Shared) {
    let (key, owner) = (*random.one_of(&KEYS), random.below(5));
    let lease = 1 + random.below(60);
    match random.below(100) {
        0..35 => {
            let block = *random.one_of(&["0", "1", "20", "200", "5000"]);
            let more = *random.one_of(&["", "", "SESSION", "MAXHOLD 50"]);
            let line = format!("LOCK.ACQUIRE {key} OWNER o{owner} PX {lease} BLOCK {block} {more}");
            if let Outcome::Reply(reply) = client.send(&line) {
                shared.waited.fetch_add(1, Ordering::Relaxed);
                note(shared, reply);
            }
        }
        35..45 => {
            if let Outcome::Reply(reply) =
                client.send(&format!("LOCK.ACQUIRE {key} OWNER o{owner} PX {lease}"))
            {
                note(shared, reply);
            }
        }
        45..70 => {
            let _ = client.send(&format!("LOCK.RELEASE {key} o{owner} {}", *random.one_of(&["", "ALL"])));
        }
        70..78 => {
            let _ = client.send(&format!("LOCK.EXTEND {key} o{owner} PX {lease}"));
        }
        78..90 => {
            let other = *random.one_of(&KEYS);
            let line = match random.below(9) {
                0 => format!("DEL {key}"),
                1 => format!("RENAME {key} {other}"),
                2 => format!("PEXPIRE {key} {lease}"),
                3 => format!("LOCK.BREAK {key}"),
                4 => format!("SET {key} text PX {lease}"),
                5 => format!("MOVE {key} {}", *random.one_of(&DATABASES)),
                6 => "SWAPDB 0 1".into(),
                // Not those that wait for the end of it: Redis 8.0 crashes where such a client is sent away.
                7 => format!("{} ASYNC", random.one_of(&["FLUSHDB", "FLUSHALL"])),
                _ => format!("PERSIST {key}"),
            };
            let _ = client.send(&line);
        }
        _ => {
            let victim = {
                let ids = shared.ids.lock().unwrap();
                *random.one_of(&ids)
            };
            let how = *random.one_of(&["UNBLOCK {} TIMEOUT", "UNBLOCK {} ERROR", "KILL ID {}"]);
            let line = format!("CLIENT {}", how.replace("{}", &victim.to_string()));
            match random.below(3) {
                0 => _ = client.send(&line),
                // In the very step in which the lock may come to it.
                _ => {
                    let release = format!("LOCK.RELEASE {key} o{owner}");
                    for line in ["MULTI", &release, &line, "EXEC"] {
                        let _ = client.send(line);
                    }
                }
            }
        }
    }
}

/// One client after the other, as they get killed, each doing one thing after the other.
fn run(server: &Server, place: usize, mut random: Rng, shared: &Shared) {
    while !shared.over.load(Ordering::Relaxed) {
        let mut client = Link::to(server.port(), PATIENCE);
        let Outcome::Reply(Value::Int(id)) = client.send("CLIENT ID") else { panic!("no id") };
        shared.ids.lock().unwrap()[place] = id;
        let _ = client.send(&format!("SELECT {}", random.one_of(&DATABASES)));
        while !shared.over.load(Ordering::Relaxed) && client.send("PING") != Outcome::Gone {
            one_step(&mut random, &mut client, shared);
        }
    }
}

/// Does it to each lock of each database.
fn for_each_lock(client: &mut Client, mut body: impl FnMut(&mut Client, &str)) {
    for db in DATABASES {
        client.ask::<()>(&format!("SELECT {db}"));
        KEYS.iter().for_each(|key| body(client, key));
    }
}

/// All grants ever made, as the append-only file has them: each new fence above all earlier ones, and one owner's.
fn fences_in_the_file(server: &Server) -> HashMap<i64, String> {
    let files = fs::read_dir(server.folder().join("appendonlydir")).unwrap();
    let file = files
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains(".incr."))
        .expect("an append-only file");
    let text = String::from_utf8(fs::read(file).unwrap()).unwrap();
    let lines: Vec<_> = text.split("\r\n").collect();
    let (mut owners, mut last) = (HashMap::new(), 0);
    for command in lines.windows(7) {
        // Each argument is a line with its length, and one with its text.
        let ["*3", _, "lock.apply", _, _key, _, state] = command else { continue };
        let state: Vec<_> = state.split(',').collect();
        let [_deadline, fence, _holds, _max_hold, owner] = state[..] else { continue };
        let fence: i64 = fence.parse().unwrap();
        let known = owners.entry(fence).or_insert_with(|| {
            assert!(fence > last, "{fence} after {last}");
            last = fence;
            owner.to_owned()
        });
        assert_eq!(known, owner, "two owners of {fence}");
    }
    owners
}

#[test]
fn whatever_clients_do_no_lock_is_lost_and_none_is_held_twice() {
    let mut random = Rng::new();
    let mut server = Setup::new().set("appendonly", "yes").set("appendfsync", "no").start();
    let shared = Arc::new(Shared {
        ids: Mutex::new(vec![0; CLIENTS]),
        grants: Mutex::default(),
        waited: AtomicI64::new(0),
        over: AtomicBool::new(false),
    });
    thread::scope(|scope| {
        for place in 0..CLIENTS {
            let (server, shared, random) = (&server, &shared, random.fork());
            scope.spawn(move || run(server, place, random, shared));
        }
        let began = Instant::now();
        let mut client = server.client();
        // Somebody must take locks from those who hold one by a session and wait for another.
        while began.elapsed() < LENGTH {
            thread::sleep(Duration::from_millis(200));
            for_each_lock(&mut client, |client, key| drop(client.send(&format!("LOCK.BREAK {key}"))));
        }
        shared.over.store(true, Ordering::Relaxed);
        // Each lock is taken from its holder again and again, and nobody comes any more.
        wait_for("nobody to wait", || {
            for_each_lock(&mut client, |client, key| drop(client.send(&format!("LOCK.BREAK {key}"))));
            blocked_clients(&mut client) == 0
        });
    });

    let mut client = server.client();
    for_each_lock(&mut client, |client, key| {
        client.ask::<()>(&format!("DEL {key}"));
        client.acquire(key, "OWNER last").unwrap();
        assert_eq!(queue(client, key), []);
    });
    let mut fences = shared.grants.lock().unwrap().clone();
    let told = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(told, fences.len(), "one grant was told twice");
    let granted = fences_in_the_file(&server);
    assert!(fences.iter().all(|fence| granted.contains_key(fence)), "a grant was told and never made");
    let before: String = client.ask("DEBUG DIGEST");
    server.kill_and_restart();
    assert_eq!(server.client().ask::<String>("DEBUG DIGEST"), before);
    let waited = shared.waited.load(Ordering::Relaxed);
    println!("{told} grants told, {waited} waits answered");
    assert!(told > 100 && waited > 100, "{told} grants told, {waited} waits answered");
}
