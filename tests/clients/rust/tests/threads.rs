//! What the conformance scenarios can't try, since it is that of threads: panics, callbacks, clones, a cluster.

use std::thread;
use std::time::{Duration, Instant};

use redis::{Client, Commands};
use redislock::blocking::{Cancel, Held, Locks};
use redislock::{Error, Servers};

const MINUTE: Duration = Duration::from_secs(60);

fn client() -> Client {
    Client::open(std::env::var("REDIS_URL").unwrap()).unwrap()
}

/// A name that no other test has.
fn name() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn acquire(locks: &Locks, key: &str) -> Held {
    locks.acquire(key).wait(MINUTE).block().unwrap()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + MINUTE;
    while !condition() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn exists(key: &str) -> bool {
    client().get_connection().unwrap().exists(key).unwrap()
}

#[test]
fn a_guard_gives_the_lock_back_even_in_a_panic() {
    let (locks, key) = (Locks::new(client()), name());
    let held = acquire(&locks, &key);
    let fence = held.fence();
    assert!(matches!(locks.acquire(&key).wait(Duration::ZERO).block(), Err(Error::NotAcquired(..))));
    let panicked = thread::spawn(move || {
        let held = held; // all of it
        panic!("with fence {}", held.fence());
    });
    assert!(panicked.join().is_err());
    locks.settled();
    assert!(!exists(&key));
    assert!(acquire(&locks, &key).fence() > fence);
}

#[test]
fn a_loss_is_told_by_all_that_tell_of_it() {
    let (locks, key) = (Locks::new(client()), name());
    let held = acquire(&locks, &key);
    let (told, telling) = std::sync::mpsc::channel();
    held.on_lost(|error| panic!("of the user: {error}")); // ends no thread of the package
    held.on_lost(move |error| told.send(error).unwrap());
    held.check().unwrap();
    redis::cmd("LOCK.BREAK").arg(&key).exec(&mut client().get_connection().unwrap()).unwrap();
    assert!(matches!(telling.recv_timeout(MINUTE), Ok(Error::Lost(_))));
    assert!(matches!(held.check(), Err(Error::Lost(_))));
    assert!(matches!(held.extend(MINUTE), Err(Error::Lost(_))));
    assert!(matches!(held.release(), Err(Error::Lost(_))));
    acquire(&locks, &key).release().unwrap();
}

#[test]
fn a_lost_lock_hinders_no_lock_inside() {
    let (locks, outer, inner) = (Locks::new(client()), name(), name());
    let (around, inside) = (acquire(&locks, &outer), acquire(&locks, &inner));
    let (told, telling) = std::sync::mpsc::channel();
    around.on_lost(move |error| told.send(error).unwrap());
    redis::cmd("LOCK.BREAK").arg(&outer).exec(&mut client().get_connection().unwrap()).unwrap();
    assert!(matches!(telling.recv_timeout(MINUTE), Ok(Error::Lost(_))));
    assert!(telling.recv_timeout(MINUTE).is_err()); // told once: the sender is gone
    inside.check().unwrap();
    inside.release().unwrap();
    assert!(matches!(around.release(), Err(Error::Lost(_))));
    assert!(!exists(&inner));
}

#[test]
fn a_wait_is_cancelled_and_one_of_closed_locks_ends() {
    let (locks, key) = (Locks::new(client()), name());
    let held = acquire(&locks, &key);
    let cancel = Cancel::default();
    thread::scope(|scope| {
        let wait = scope.spawn(|| locks.acquire(&key).cancelled_by(&cancel));
        cancel.cancel();
        assert!(matches!(wait.join().unwrap(), Err(Error::Cancelled)));
        let wait = scope.spawn(|| locks.acquire(&key).wait(MINUTE).block());
        locks.close();
        assert!(matches!(wait.join().unwrap(), Err(Error::Closed)));
    });
    assert!(matches!(held.check(), Err(Error::Closed)));
    assert!(!exists(&key));
    assert!(matches!(locks.acquire(&key).block(), Err(Error::Closed)));
}

#[test]
fn threads_lock_on_a_cluster() {
    let url = std::env::var("CLUSTER_URL").unwrap();
    let cluster = redis::cluster::ClusterClient::new([url.as_str()]).unwrap();
    let locks = Locks::new(Servers::cluster(cluster, [Client::open(url).unwrap()]));
    let held = locks.acquire_all(["{bank}:1", "{bank}:2"]).wait(MINUTE).block().unwrap();
    assert!(matches!(locks.acquire("{bank}:2").wait(Duration::ZERO).block(), Err(Error::NotAcquired(..))));
    held.release().unwrap();
}

/// The last one to go ends the threads, and so the connections.
#[test]
fn locks_that_nobody_has_any_more_leave_no_connection() {
    let mut url = std::env::var("REDIS_URL").unwrap();
    let user = name();
    let mut other = client().get_connection().unwrap();
    let rules = ["SETUSER", &user, "on", "nopass", "~*", "&*", "+@all"];
    redis::cmd("ACL").arg(&rules).exec(&mut other).unwrap();
    url = url.replace("redis://", &format!("redis://{user}:any@"));
    let mut connections = move || {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut other).unwrap();
        list.lines().filter(|line| line.contains(&user)).count()
    };
    let locks = Locks::new(Client::open(url).unwrap());
    let (key, another) = (name(), locks.clone());
    let held = acquire(&locks, &key);
    drop((locks, another));
    assert_eq!(connections(), 2);
    held.check().unwrap();
    drop(held);
    let end = Instant::now() + MINUTE;
    while connections() > 0 {
        assert!(Instant::now() < end, "connections stay");
        thread::sleep(Duration::from_millis(20));
    }
    until("it is released", || !exists(&key));
}
