//! Readers and writers, n at a time: the package with `shared` and `limit`, many at once.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};

use redis::{Client, Commands, Connection, cmd};
use redislock::{Locks, blocking};
use tokio::task::JoinSet;
use tokio::time::sleep;

const READERS: usize = 100;
const WRITERS: usize = 5;
const WORKERS: usize = 200;
const LIMIT: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

fn client() -> Client {
    Client::open(std::env::var("REDIS_URL").unwrap()).unwrap()
}

/// A lock that no other test has.
fn key() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn blocking_locks() -> blocking::Locks {
    blocking::Locks::new(client())
}

#[derive(Default)]
struct Inside {
    readers: usize,
    writers: usize,
    most: usize,
    written: usize,
}

/// Whoever reads while somebody writes sees it: by a count of who is inside, and by a file that is written in two steps.
struct Book {
    inside: Mutex<Inside>,
    path: PathBuf,
}

impl Book {
    fn new() -> Self {
        let path = std::env::temp_dir().join(key());
        fs::write(&path, "0 0").unwrap();
        Book { inside: Mutex::default(), path }
    }

    fn begin_to_read(&self) {
        let mut inside = self.inside.lock().unwrap();
        assert_eq!(inside.writers, 0, "a reader beside a writer");
        inside.readers += 1;
        inside.most = inside.most.max(inside.readers);
    }

    fn end_to_read(&self) {
        let text = fs::read_to_string(&self.path).unwrap();
        let (one, other) = text.split_once(' ').unwrap();
        assert_eq!(one, other);
        let mut inside = self.inside.lock().unwrap();
        assert_eq!(inside.writers, 0, "a writer beside a reader");
        inside.readers -= 1;
    }

    fn begin_to_write(&self) {
        let mut inside = self.inside.lock().unwrap();
        assert_eq!((inside.readers, inside.writers), (0, 0), "a writer beside somebody");
        inside.writers += 1;
        inside.written += 1;
        fs::write(&self.path, format!("{} ", inside.written)).unwrap();
    }

    fn end_to_write(&self) {
        let mut inside = self.inside.lock().unwrap();
        fs::write(&self.path, format!("{0} {0}", inside.written)).unwrap();
        assert_eq!((inside.readers, inside.writers), (0, 1), "somebody beside a writer");
        inside.writers -= 1;
    }

    fn assert_written(&self) {
        let inside = self.inside.lock().unwrap();
        assert_eq!(inside.written, 4 * WRITERS);
        assert!(inside.most > 2, "{} at most read at a time", inside.most);
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// How many are inside, how many were at most, and how many have been.
#[derive(Default)]
struct Room(Mutex<(usize, usize, usize)>);

impl Room {
    fn enter(&self) {
        let mut room = self.0.lock().unwrap();
        room.0 += 1;
        room.1 = room.1.max(room.0);
    }

    /// How many have been.
    fn leave(&self) -> usize {
        let mut room = self.0.lock().unwrap();
        room.0 -= 1;
        room.2 += 1;
        room.2
    }

    fn assert_served(&self) {
        let (_, most, served) = *self.0.lock().unwrap();
        assert_eq!(served, WORKERS);
        assert!((3..=LIMIT).contains(&most), "{most} at a time");
    }
}

/// Connections that have permits by a session, to be killed.
struct Lost(Vec<(u64, Connection)>);

impl Lost {
    fn take(key: &str) -> Self {
        let take = |number| {
            let mut connection = client().get_connection().unwrap();
            let mut acquire = cmd("LOCK.ACQUIRE");
            acquire.arg(key).arg("OWNER").arg(format!("lost:{number}"));
            acquire.arg("LIMIT").arg(LIMIT).arg("SESSION").exec(&mut connection).unwrap();
            (cmd("CLIENT").arg("ID").query(&mut connection).unwrap(), connection)
        };
        Lost((0..5).map(take).collect())
    }

    fn kill(&self) {
        let mut connection = client().get_connection().unwrap();
        for (id, _) in &self.0 {
            let killed: u64 = cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(&mut connection).unwrap();
            assert_eq!(killed, 1);
        }
    }
}

fn until_free(key: &str) {
    let (mut connection, end) =
        (client().get_connection().unwrap(), Instant::now() + Duration::from_secs(30));
    while connection.exists::<_, bool>(key).unwrap() {
        assert!(Instant::now() < end, "not within 30 s: all permits are given back");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_hundred_threads_read_and_five_write() {
    let (locks, book, key) = (blocking_locks(), Book::new(), key());
    let work = |number: usize| {
        for _ in 0..4 {
            let wanted = locks.acquire(&key).wait(MINUTE);
            if number < WRITERS {
                let held = wanted.block().unwrap();
                book.begin_to_write();
                thread::sleep(Duration::from_millis(1)); // the others' chance
                book.end_to_write();
                held.release().unwrap();
            } else {
                let held = wanted.shared().block().unwrap();
                book.begin_to_read();
                thread::sleep(Duration::from_millis(20));
                book.end_to_read();
                held.release().unwrap();
            }
        }
    };
    thread::scope(|scope| (0..WRITERS + READERS).for_each(|number| drop(scope.spawn(move || work(number)))));
    book.assert_written();
}

#[test]
fn two_hundred_threads_share_ten_permits_and_some_holders_are_killed() {
    let (locks, room, key) = (blocking_locks(), Room::default(), key());
    let lost = Lost::take(&key);
    let work = || {
        let held = locks.acquire(&key).limit(LIMIT as u32).wait(MINUTE).block().unwrap();
        room.enter();
        thread::sleep(Duration::from_millis(20));
        if room.leave() == 20 {
            lost.kill();
        }
        held.release().unwrap();
    };
    thread::scope(|scope| (0..WORKERS).for_each(|_| drop(scope.spawn(work))));
    room.assert_served();
    until_free(&key);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_tasks_read_and_five_write() {
    let (locks, book, key, mut tasks) = (Locks::new(client()), Arc::new(Book::new()), key(), JoinSet::new());
    for number in 0..WRITERS + READERS {
        let (locks, book, key) = (locks.clone(), book.clone(), key.clone());
        tasks.spawn(async move {
            for _ in 0..4 {
                let wanted = locks.acquire(&key).wait(MINUTE);
                if number < WRITERS {
                    let held = wanted.await.unwrap();
                    book.begin_to_write();
                    sleep(Duration::from_millis(1)).await; // the others' chance
                    book.end_to_write();
                    held.release().await.unwrap();
                } else {
                    let held = wanted.shared().await.unwrap();
                    book.begin_to_read();
                    sleep(Duration::from_millis(20)).await;
                    book.end_to_read();
                    held.release().await.unwrap();
                }
            }
        });
    }
    tasks.join_all().await;
    book.assert_written();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_tasks_share_ten_permits_and_some_holders_are_killed() {
    let (locks, room, key, mut tasks) =
        (Locks::new(client()), Arc::new(Room::default()), key(), JoinSet::new());
    let lost = Arc::new(Lost::take(&key));
    for _ in 0..WORKERS {
        let (locks, room, key, lost) = (locks.clone(), room.clone(), key.clone(), lost.clone());
        tasks.spawn(async move {
            let held = locks.acquire(&key).limit(LIMIT as u32).wait(MINUTE).await.unwrap();
            room.enter();
            sleep(Duration::from_millis(20)).await;
            if room.leave() == 20 {
                lost.kill();
            }
            held.release().await.unwrap();
        });
    }
    tasks.join_all().await;
    room.assert_served();
    until_free(&key);
}
