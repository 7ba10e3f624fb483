//! The lock over several servers (docs/redlock.md): five servers, three clients at once, servers that die.

#[allow(dead_code)]
#[path = "../../../../docs/programs/redlock.rs"]
mod redlock;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redis::{Client, FromRedisValue, RedisResult, Value, cmd};
use redlock::Redlock;

fn lock(key: &str, wait: Duration) -> Redlock {
    Redlock::new(&urls(), key, Duration::from_secs(10), wait).unwrap()
}

/// All that `run` started, but the first, which is for the other tests.
fn urls() -> Vec<String> {
    std::env::var("REDIS_URLS").unwrap().split(' ').skip(1).map(str::to_owned).collect()
}

/// What those servers say to it.
fn ask<T: FromRedisValue>(servers: Range<usize>, words: &[&str]) -> Vec<RedisResult<T>> {
    let ask = |url: &String| {
        let mut connection = Client::open(url.as_str())?.get_connection()?;
        cmd(words[0]).arg(&words[1..]).query(&mut connection)
    };
    urls()[servers].iter().map(ask).collect()
}

fn lose(servers: Range<usize>) {
    assert!(ask(servers, &["LOCK.BREAK", "lost"]).into_iter().all(|broken| broken == Ok(1)));
}

// One after the other, since the servers are those of each.
#[test]
fn it_tells_whether_it_is_held_also_when_servers_die() {
    ask::<Value>(0..3, &["LOCK.ACQUIRE", "taken"]);
    let told = lock("taken", Duration::ZERO).with(|_| panic!("two have the lock"));
    assert!(told.unwrap_err().to_string().contains("of 5 servers"));
    assert_eq!(ask(3..5, &["EXISTS", "taken"]), [Ok(0), Ok(0)]); // nothing is left behind

    let mut mine = lock("lost", Duration::from_secs(60));
    mine.with(|lock| {
        lose(0..2);
        // On a busy machine, another one may be taken for dead for once.
        assert!((0..10).any(|_| lock.extend().is_ok()));
    })
    .unwrap();
    let told = mine.with(|lock| {
        lose(0..3);
        assert!(lock.extend().is_err());
    });
    assert!(told.is_err());

    let (at_work, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let job = |lock: &mut Redlock| {
        assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0, "two at work");
        lock.with(|_| ()).ok(); // a re-entry
        let mut done = done.lock().unwrap();
        done.push(lock.fences.clone());
        if done.len() == 6 {
            ask::<Value>(0..2, &["SHUTDOWN", "NOSAVE"]);
        }
        at_work.fetch_sub(1, Ordering::SeqCst);
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            let mut lock = lock("job", Duration::from_secs(60));
            // As before: then it is told.
            scope.spawn(move || (0..5).for_each(|_| while lock.with(job).is_err() {}));
        }
    });
    let done = done.into_inner().unwrap();
    assert!(done.len() >= 15);
    for pair in done.windows(2) {
        let both = pair[0].iter().zip(&pair[1]).filter_map(|(earlier, later)| Some(((*earlier)?, (*later)?)));
        let shared: Vec<_> = both.collect();
        assert!(!shared.is_empty() && shared.iter().all(|(earlier, later)| earlier < later), "{pair:?}");
    }

    ask::<Value>(2..3, &["SHUTDOWN", "NOSAVE"]);
    let told = lock("job", Duration::from_millis(300)).with(|_| panic!("two servers are no majority"));
    assert!(told.is_err());
}
