//! Transfers between accounts by many processes, each of which takes the locks of its two accounts at once. Some are killed in the
//! middle of one, and others take their place.

use std::env;
use std::process::{Child, Command, Stdio, id};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{FromRedisValue, Value};

use super::{count, grants};
use crate::support::{Link, Outcome, PATIENCE, Rng, Server, convert, figure, wait_for};

const ACCOUNTS: usize = 50;
const BALANCE: i64 = 1000;
const PROCESSES: u32 = 16;
const TRANSFERS: i64 = 10_000;

/// After so many transfers one more process is killed.
const BETWEEN_KILLS: i64 = 150;

/// Tells a process that it is one of those that transfer, and where the server is.
const PORT: &str = "REDISLOCK_TRANSFERS_PORT";

/// The test starts its own program once more for each process.
#[test]
fn of_ten_thousand_by_processes_that_are_killed_none_is_lost_or_torn() {
    if let Ok(port) = env::var(PORT) {
        return transfers(port.parse().unwrap());
    }
    let server = Server::start();
    let (mut client, mut rng, began) = (server.client(), Rng::new(), Instant::now());
    for account in 0..ACCOUNTS {
        client.ask::<()>(&format!("SET account:{account} {BALANCE}"));
    }
    client.ask::<()>("SET transfers 0");
    let mut processes: Vec<Child> = (0..PROCESSES).map(|_| start(&server, &mut rng)).collect();
    let (mut done, mut kills, mut next, mut slowest_end) = (0, 0, BETWEEN_KILLS, Duration::ZERO);
    while done < TRANSFERS {
        wait_for("transfers to go on", || {
            done = client.ask("GET transfers");
            if done < next || done >= TRANSFERS {
                return done >= TRANSFERS;
            }
            // One that holds locks, mostly still when it is killed.
            let Some(holder) = client.holder(&format!("lock:{}", rng.below(ACCOUNTS))) else { return false };
            let victim =
                processes.iter_mut().find(|process| holder.owner.starts_with(&format!("{}-", process.id())));
            // One that has been killed held it, and its connection is not closed yet.
            let Some(victim) = victim else { return false };
            let killed = Instant::now();
            victim.kill().unwrap();
            victim.wait().unwrap();
            slowest_end = killed.elapsed().max(slowest_end);
            *victim = start(&server, &mut rng);
            (kills, next) = (kills + 1, done + BETWEEN_KILLS);
            true
        });
    }
    let took = began.elapsed();
    for process in &mut processes {
        assert!(process.wait().unwrap().success(), "a process failed");
    }
    let balances = (0..ACCOUNTS).map(|account| client.ask::<i64>(&format!("GET account:{account}")));
    assert_eq!(balances.sum::<i64>(), ACCOUNTS as i64 * BALANCE);
    wait_for("the end of all sessions", || count(&mut client, "lock_sessions") == 0);
    assert_eq!(client.ask::<Vec<String>>("KEYS lock:*"), [""; 0]);
    assert_eq!(count(&mut client, "lock_waiters"), 0);
    let ended = count(&mut client, "lock_sessions_ended");
    assert!(kills > 20 && ended > 10, "{kills} killed, and {ended} grants ended with them");
    // Each process waits for one transfer at a time, so at most all the others are in front; and each of them keeps its locks for
    // as long as it takes, or until its end. The leases are so long that one who waited for the dead would be noticed.
    let mut longest =
        |what: &str| Duration::from_micros(client.ask::<f64>(&format!("ZSCORE longest {what}")) as u64);
    let (wait, hold) = (longest("wait"), longest("hold"));
    let bound = PROCESSES * (hold + slowest_end);
    figure(
        "transfers",
        format_args!(
            "{TRANSFERS} in {took:?}, {kills} killed, and {ended} grants ended with them, the longest wait {wait:?} \
             (bound {bound:?}), hold {hold:?}, end of a process {slowest_end:?}"
        ),
    );
    assert!(wait < bound, "one waited {wait:?}, and should have had to wait for {bound:?} at most");
}

/// This test once more, as a process of its own.
fn start(server: &Server, rng: &mut Rng) -> Child {
    let name = module_path!().split_once("::").unwrap().1;
    Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("{name}::of_ten_thousand_by_processes_that_are_killed_none_is_lost_or_torn"),
        ])
        .env(PORT, server.port().to_string())
        .env("REDISLOCK_SEED", rng.next().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// What one process does: transfers, until there have been enough.
fn transfers(port: u16) {
    let mut link = Link::to(port, PATIENCE);
    let mut rng = Rng::new();
    let mut turn = 0;
    while ask::<i64>(&mut link, "GET transfers") < TRANSFERS {
        turn += 1;
        transfer(&mut link, &mut rng, &format!("{}-{turn}", id()));
    }
}

/// Nothing of it can be torn, whenever this process is killed. It reads first, and then writes both accounts in one transaction: the
/// server carries out all of that, or nothing where `EXEC` has not come. And it writes on the connection that the session belongs to:
/// what was sent before a connection ended is read before that end is seen, so nothing comes when the locks are another's.
fn transfer(link: &mut Link, rng: &mut Rng, owner: &str) {
    let from = rng.below(ACCOUNTS);
    let to = (from + 1 + rng.below(ACCOUNTS - 1)) % ACCOUNTS;
    let asked = Instant::now();
    let line = format!("LOCK.MACQUIRE 2 lock:{from} lock:{to} OWNER {owner} PX 600000 SESSION BLOCK 0");
    let all = grants(ask(link, &line)).unwrap();
    let waited = asked.elapsed().as_micros();
    assert_eq!((&all.holds[..], all.fences[0]), (&[1, 1][..], all.fences[1]));
    let [source, target]: [i64; 2] = ask(link, &format!("MGET account:{from} account:{to}"));
    let amount = 1 + rng.below(20) as i64;
    let lines = [
        "MULTI",
        &format!("SET account:{from} {}", source - amount),
        &format!("SET account:{to} {}", target + amount),
        "INCR transfers",
        &format!("ZADD longest GT {waited} wait"),
        "EXEC",
    ];
    lines.iter().for_each(|line| assert!(link.begin(line)));
    let outcomes: Vec<Outcome> = lines.iter().map(|_| link.finish()).collect();
    assert!(
        matches!(&outcomes[..], [.., Outcome::Reply(Value::Array(done))] if done.len() == 4),
        "{outcomes:?}"
    );
    assert_eq!(ask::<[i64; 2]>(link, &format!("LOCK.MRELEASE 2 lock:{from} lock:{to} {owner}")), [0, 0]);
    // A fence is the time of the grant.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
    ask::<i64>(link, &format!("ZADD longest GT {} hold", now - all.fences[0]));
}

#[track_caller]
fn ask<T: FromRedisValue>(link: &mut Link, line: &str) -> T {
    match link.send(line) {
        Outcome::Reply(reply) => convert(reply),
        outcome => panic!("{line}: {outcome:?}"),
    }
}
