//! Fifty thousand clients wait: a page costs no more than with a few.

use redis::Value;

use super::page;
use crate::support::{Client, Mailbox, Server, Setup, queue};

const MANY: usize = 50_000;
const FEW: usize = 50;

/// Takes this many places, on this many held locks.
fn places(server: &Server, count: usize, locks: usize) -> Client {
    let mut client = server.client();
    let hold = |lock| format!("LOCK.ACQUIRE k{lock} OWNER alice PX 600000");
    client.ask_all::<Value, _>(&(0..locks).map(hold).collect::<Vec<_>>());
    let wait = |place| format!("LOCK.ACQUIRE k{} OWNER w{place} PX 600000 BLOCK 0 NOTIFY ch", place % locks);
    client.ask_all::<Value, _>(&(0..count).map(wait).collect::<Vec<_>>());
    client
}

/// Returns the server's time for one command, in µs: the best of several averages from its own statistics.
fn took(client: &mut Client, line: &str) -> f64 {
    let command = line.split(' ').next().unwrap().to_lowercase();
    let some = || {
        client.ask::<()>("CONFIG RESETSTAT");
        for _ in 0..10 {
            let reply: Value = client.ask(line);
            if let Value::Array(page) = &reply
                && let [_, Value::Array(some)] = &page[..]
            {
                assert_eq!(some.len(), 10, "{line}");
            }
        }
        let stats = client.info("commandstats", &format!("cmdstat_{command}"));
        let each = stats.split(',').find_map(|part| part.strip_prefix("usec_per_call="));
        each.unwrap().parse::<f64>().unwrap()
    };
    std::iter::repeat_with(some).take(10).min_by(f64::total_cmp).unwrap()
}

/// Checks that a page takes at most this many µs, and 0.9 to 1.3 times as long as with few waiters. (A walk to the middle: 20 times.)
fn costs_no_more_with_many(
    most: f64,
    many: (usize, usize),
    few: (usize, usize),
    line: impl Fn(usize) -> String,
) {
    let [(few, few_server), (many, many_server)] = [few, many].map(|(count, locks)| {
        let server = Server::start();
        let places = places(&server, count, locks);
        ((count, places), server)
    });
    let times = || {
        let [few, many] = [(&few_server, few.0), (&many_server, many.0)]
            .map(|(server, count)| took(&mut server.client(), &line(count)));
        println!("{}: {many} us with many, {few} us with few", line(0));
        assert!(many < most, "{many} us");
        many / few
    };
    let tries: Vec<f64> = (0..3).map(|_| times()).collect();
    assert!(tries.iter().any(|times| *times < 2.0), "{tries:.1?} times as long with many");
}

/// Waiters are numbered from 2, so this cursor is in the middle.
#[test]
fn a_page_in_the_middle_of_one_queue() {
    let middle = |count: usize| format!("LOCK.WAITS KEY k0 COUNT 10 CURSOR {}", count / 2);
    costs_no_more_with_many(1000.0, (MANY, 1), (FEW, 1), middle);
    costs_no_more_with_many(1000.0, (MANY, 1), (FEW, 1), |count| format!("LOCK.WAITS CURSOR {}", count / 2));
}

/// Waiters whose grants are unclaimed are skipped.
#[test]
fn grants_that_nobody_claims_are_in_nobodys_way() {
    let server = Setup::new().module_args("claim 600000").start();
    let _mail = Mailbox::of(&server, "ch");
    let mut client = places(&server, MANY, MANY);
    let release = |lock| format!("LOCK.RELEASE k{lock} alice");
    client.ask_all::<Value, _>(&(1..MANY - 10).map(release).collect::<Vec<_>>());
    // One waiter is in front of all of them, and ten are behind them.
    let (mut cursor, mut shown, mut pages) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let (next, some) = page(&mut client, &format!("CURSOR {cursor} COUNT 20"));
        shown.extend(super::owners(&some));
        pages += 1;
        if next == "0" {
            break;
        }
        cursor = next;
    }
    let last = (MANY - 10..MANY).map(|place| format!("w{place}"));
    assert_eq!(shown, ["w0".to_owned()].into_iter().chain(last).collect::<Vec<_>>());
    assert!(pages <= 11, "{pages}");
    client.ask::<()>("LOCK.RELEASE k0 alice");
    assert_eq!(page(&mut client, "").1.len(), 10);
    assert!(took(&mut client, "LOCK.WAITS") < 1000.0);
}

/// `LOCK.INFO ... FULL` shows the first thousand holders and waiters, and counts all.
#[test]
fn a_full_look_shows_a_thousand() {
    const BEYOND: usize = 1_001;
    let server = Setup::new().module_args("max-holders 0").start();
    let mut client = places(&server, BEYOND, 1);
    let (mut waiters, mut cursor) = (0, "0".to_owned());
    while waiters == 0 || cursor != "0" {
        let (next, some) = page(&mut client, &format!("KEY k0 CURSOR {cursor} COUNT 400"));
        waiters += some.len();
        cursor = next;
    }
    let shown = queue(&mut client, "k0");
    assert!(shown.iter().enumerate().all(|(place, waiter)| waiter.owner == format!("w{place}")));
    assert_eq!(
        (shown.len(), waiters, client.lock_info("k0").unwrap()["waiters"].parse()),
        (1000, BEYOND, Ok(BEYOND))
    );
    let hold = |reader| format!("LOCK.ACQUIRE shared OWNER r{reader} SHARED PX 600000");
    client.ask_all::<Value, _>(&(0..BEYOND).map(hold).collect::<Vec<_>>());
    let shown = client.holders("shared");
    assert!(shown.iter().enumerate().all(|(reader, holder)| holder.owner == format!("r{reader}")));
    assert_eq!((shown.len(), client.lock_info("shared").unwrap()["holders"].parse()), (1000, Ok(BEYOND)));
}
