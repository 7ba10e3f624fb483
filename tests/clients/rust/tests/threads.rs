//! Many threads, each with a connection of its own or one of a pool, as the docs say.

#[allow(dead_code)]
#[path = "../docs/guard.rs"]
mod guard;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use guard::Guard;
use redis::{Client, Commands, Connection, ConnectionLike, RedisResult};

fn client() -> Client {
    Client::open(std::env::var("REDIS_URL").unwrap()).unwrap()
}

/// A name that no other test has.
fn name() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn acquire<'a, C: ConnectionLike>(connection: &'a mut C, key: &str) -> Guard<'a, C> {
    Guard::acquire(connection, key, &[], 60_000, 60_000).unwrap().expect("not within 60 s")
}

/// Takes the lock some times, and sees that nobody else is inside and that the fences rise.
struct Door {
    key: String,
    occupied: AtomicBool,
    fences: Mutex<Vec<u64>>,
}

impl Door {
    fn new() -> Self {
        Door { key: name(), occupied: AtomicBool::new(false), fences: Mutex::default() }
    }

    fn enter<C: ConnectionLike>(&self, connection: &mut C) {
        let guard = acquire(connection, &self.key);
        assert!(!self.occupied.swap(true, Ordering::SeqCst), "two have the lock");
        thread::sleep(Duration::from_micros(100)); // the others' chance
        self.fences.lock().unwrap().push(guard.fence);
        self.occupied.store(false, Ordering::SeqCst);
        guard.release().unwrap();
    }

    fn assert_entered(self, times: usize) {
        let fences = self.fences.into_inner().unwrap();
        assert_eq!(fences.len(), times);
        assert!(fences.is_sorted());
    }
}

#[test]
fn a_hundred_threads_take_turns_at_one_lock() {
    let (client, door) = (client(), Door::new());
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let mut connection = client.get_connection().unwrap();
                (0..20).for_each(|_| door.enter(&mut connection));
            });
        }
    });
    door.assert_entered(2000);
}

#[test]
fn threads_take_turns_on_a_cluster() {
    let urls = vec![std::env::var("CLUSTER_URL").unwrap()];
    let (client, door) = (redis::cluster::ClusterClient::new(urls).unwrap(), Door::new());
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut connection = client.get_connection().unwrap();
                (0..20).for_each(|_| door.enter(&mut connection));
            });
        }
    });
    door.assert_entered(400);
}

#[test]
fn a_hundred_threads_share_the_ten_connections_of_a_pool() {
    let pool = r2d2::Pool::new(client()).unwrap();
    let door = Door::new();
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| (0..20).for_each(|_| door.enter(&mut *pool.get().unwrap())));
        }
    });
    door.assert_entered(2000);
}

/// Whether there was a piece left. The stock is read and written in two steps, under the article's lock.
fn buy(connection: &mut Connection, article: &str) -> RedisResult<bool> {
    let guard = acquire(connection, &format!("lock:{article}"));
    let left: u64 = guard.connection.get(article)?;
    thread::sleep(Duration::from_millis(2)); // the others' chance
    if left > 0 {
        let () = guard.connection.set(article, left - 1)?;
    }
    guard.release()?;
    Ok(left > 0)
}

#[test]
fn five_hundred_buyers_of_five_articles() {
    let client = client();
    let articles: [String; 5] = std::array::from_fn(|_| name());
    let mut connection = client.get_connection().unwrap();
    for article in &articles {
        let () = connection.set(article, 40).unwrap();
    }
    let sold = thread::scope(|scope| {
        let buyer =
            |number: usize| buy(&mut client.get_connection().unwrap(), &articles[number % 5]).unwrap();
        let buyers: Vec<_> = (0..500).map(|number| scope.spawn(move || buyer(number))).collect();
        buyers.into_iter().map(|buyer| buyer.join().unwrap()).filter(|sold| *sold).count()
    });
    assert_eq!(sold, 200);
    for article in &articles {
        assert_eq!(connection.get::<_, u64>(article).unwrap(), 0);
    }
}
