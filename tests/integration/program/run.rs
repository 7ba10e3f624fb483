//! `redislock run`: the environment of the command, the exit code, and mutual exclusion.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::{Running, command, ended, redislock, url};
use crate::support::{Server, Setup, Waiter, queue, wait_for};

#[test]
fn a_command_runs_under_the_lock() {
    let (server, mut client) = super::with_client();
    let script = "echo $REDISLOCK_KEY $REDISLOCK_FENCE $REDISLOCK_OWNER ${REDISLOCK_SLOT-none}; exit 7";
    let mut running = command(
        &url(&server),
        &["run", "k", "--label", "me", "--", "sh", "-c", &format!("read line; {script}")],
    );
    running.stdin(Stdio::piped());
    let mut running = Running(running.spawn().unwrap());
    wait_for("a holder", || !client.holders("k").is_empty());
    let holder = client.holders("k").remove(0);
    assert_eq!((holder.label.as_str(), holder.mode.as_str(), holder.session), ("me", "exclusive", false));
    running.type_in("\n");
    let ran = running.end();
    assert_eq!(ran.out, format!("k {} {} none\n", holder.fence, holder.owner));
    assert_eq!((ran.code, ran.err.as_str()), (Some(7), ""));
    assert!(client.holders("k").is_empty());
}

#[test]
fn arguments_and_the_input_reach_the_command_as_they_are() {
    let server = Server::start();
    let ran =
        redislock(&server, &["run", "k", "--", "printf", "%s|", "a b", "$HOME", "*", "", "--wait", "ö"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "a b|$HOME|*||--wait|ö|"));
    let mut cat = command(&url(&server), &["run", "k", "--", "cat"]);
    cat.stdin(Stdio::piped());
    let mut cat = Running(cat.spawn().unwrap());
    cat.type_in("what is typed in");
    drop(cat.0.stdin.take());
    assert_eq!(cat.end().out, "what is typed in");
}

#[test]
fn the_label_says_who_runs_what_unless_it_is_given() {
    let (server, mut client) = super::with_client();
    let long = "x".repeat(300);
    let running = Running::holding(&server, "k", &[], &format!("exec sleep 60 # ö{long}"));
    let label = client.holders("k").remove(0).label;
    assert!(label.contains(&format!(" pid {}: sh -c exec sleep 60", running.0.id())), "{label}");
    assert!(label.len() <= 128, "{label}");
}

#[test]
fn who_does_not_get_the_lock_is_told_who_holds_it() {
    let (server, mut client) = super::with_client();
    client.ask::<()>("LOCK.ACQUIRE k OWNER alice LABEL nightly SHARED");
    client.ask::<()>("LOCK.ACQUIRE k OWNER bob LABEL daily SHARED");
    for words in [&["--no-wait"] as &[_], &["--wait", "3s"]] {
        let ran = redislock(&server, &[&["run", "k"], words, &["--", "echo", "ran"]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (Some(75), ""), "{}", ran.err);
        assert!(ran.err.starts_with("redislock: k is held by nightly and 1 other (fence "), "{}", ran.err);
        assert!(ran.err.contains(") for "), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1);
    }
    assert_eq!(queue(&mut client, "k").len(), 0);
}

#[test]
fn who_waits_gets_the_lock_when_it_is_released() {
    let (server, mut client) = Server::held();
    let waiting = Running::start(&server, &["run", "k", "--", "echo", "mine"]);
    wait_for("a waiter", || queue(&mut client, "k").len() == 1);
    client.ask::<()>("LOCK.RELEASE k alice");
    let ran = waiting.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "mine\n"));
}

#[test]
fn who_waits_is_told_who_holds_the_lock_if_asked() {
    let (server, mut client) = Server::held();
    let other = Waiter::new(&server, "k", "OWNER bob LABEL nightly");
    let mut waiting = Running::start(&server, &["run", "k", "-v", "--label", "", "--", "echo", "mine"]);
    let mut said = BufReader::new(waiting.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut says = |part: &str| {
        let line = said.next().unwrap();
        assert!(line.starts_with(&format!("redislock: {part}")), "{line}");
    };
    says("waiting: k is held by alice (fence ");
    wait_for("two waiters", || queue(&mut client, "k").len() == 2);
    client.ask::<()>("LOCK.RELEASE k alice");
    says("waiting: k is held by nightly (fence ");
    client.ask::<()>("LOCK.RELEASE k bob");
    says("acquired k (fence ");
    assert_eq!(waiting.0.wait().unwrap().code(), Some(0));
    assert_eq!(said.next(), None);
    drop(other);
    let words = ["run", "job", "--once-per", "1h", "-v", "--", "true"];
    let [first, second] = [(); 2].map(|()| redislock(&server, &words));
    assert!(first.err.starts_with("redislock: acquired job (fence ") && first.err.lines().count() == 1);
    assert!(second.err.contains("job was run by"), "{second:?}");
}

#[test]
fn readers_share_and_a_limit_gives_numbers() {
    let (server, mut client) = super::with_client();
    let readers: Vec<Running> =
        (0..2).map(|_| Running::start(&server, &["run", "r", "--shared", "--", "sleep", "60"])).collect();
    wait_for("two readers", || client.holders("r").len() == 2);
    assert_eq!(redislock(&server, &["run", "r", "--no-wait", "--", "true"]).code, Some(75));
    drop(readers);

    let show = "echo $REDISLOCK_SLOT; exec sleep 60";
    let mut first = Running::holding(&server, "l", &["--limit", "2"], show);
    first.says("1\n");
    let mut second = Running::start(&server, &["run", "l", "--limit", "2", "--", "sh", "-c", show]);
    second.says("2\n");
    assert_eq!(redislock(&server, &["run", "l", "--limit", "2", "--no-wait", "--", "true"]).code, Some(75));
}

#[test]
fn several_locks_are_held_together() {
    let (server, mut client) = super::with_client();
    let running = Running::holding(&server, "a", &["--all", "b", "c"], "exec sleep 60");
    let fences: Vec<i64> = ["a", "b", "c"].map(|key| client.holders(key).remove(0).fence).to_vec();
    assert!(fences.iter().all(|fence| *fence == fences[0]), "{fences:?}");
    assert_eq!(redislock(&server, &["run", "c", "--no-wait", "--", "true"]).code, Some(75));
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.end().code, Some(143));
    assert!(["a", "b", "c"].iter().all(|key| client.holders(key).is_empty()));
}

#[test]
fn once_in_a_period_it_runs_unless_it_fails() {
    // The longest lease is much shorter than the period.
    let (server, mut client) = Setup::new().module_args("max-lease 30000").start_and_client();
    let run = |words: &[&str], script: &str| {
        let words = [&["run", "job", "--once-per", "1000d"], words, &["--", "sh", "-c", script]].concat();
        redislock(&server, &words)
    };
    assert_eq!(run(&[], "echo fails; exit 3").code, Some(3));
    // A waiter runs the command if the first host dies, but not if the command has succeeded there.
    let script = "echo $0; exec sleep 60";
    let mut died = Running::holding(&server, "job", &["--once-per", "1000d"], script);
    died.says("sh\n");
    let words = ["run", "job", "--once-per", "1000d", "--label", "me", "--", "echo", "ran"];
    let waiting: Vec<Running> = (0..3).map(|_| Running::start(&server, &words)).collect();
    wait_for("three waiters", || queue(&mut client, "job").len() == 3);
    let now = run(&["--no-wait"], "echo again");
    assert_eq!((now.code, now.out.as_str(), now.err.as_str()), (Some(0), "", ""));
    died.signal(rustix::process::Signal::KILL);
    let ran: Vec<_> = waiting.into_iter().map(Running::end).collect();
    assert!(ran.iter().all(|ran| ran.code == Some(0) && ran.err.is_empty()), "{ran:?}");
    assert_eq!(ran.iter().map(|ran| ran.out.as_str()).collect::<String>(), "ran\n");

    let ran = run(&["--conflict-exit-code", "9"], "echo again");
    assert_eq!((ran.code, ran.out.as_str()), (Some(9), ""));
    assert_eq!(ran.err, "redislock: job was run by me in this period\n");
    assert_eq!(client.ask::<Vec<String>>("KEYS *"), ["job:ran"]);
    let left: u64 = client.ask("PTTL job:ran");
    assert!((1..=86_400_000_000).contains(&left), "{left}");
}

#[test]
fn a_period_of_once_per_begins_with_the_run() {
    let (server, mut client) = super::with_client();
    let ran = redislock(&server, &["run", "job", "--once-per", "1m", "--", "sleep", "1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(client.ask::<u64>("PTTL job:ran") <= 59_000);
    // A run that takes longer than its period leaves no note.
    assert_eq!(redislock(&server, &["run", "long", "--once-per", "1ms", "--", "sleep", "0.1"]).code, Some(0));
    assert_eq!(client.ask::<i64>("EXISTS long:ran"), 0);
}

/// The command has run. If the note can't be written, the user must be told.
#[test]
fn a_run_that_can_not_be_noted_is_told() {
    let (server, mut client) = super::with_client();
    let go = server.folder().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let running = Running::holding(&server, "job", &["--once-per", "1h"], &script);
    client.ask::<()>("ACL SETUSER default -set");
    std::fs::write(go, "").unwrap();
    let ran = running.end();
    assert_eq!(ran.code, Some(77), "{ran:?}");
    assert!(ran.err.contains("may be run again"), "{}", ran.err);
    assert!(client.holders("job").is_empty());
}

#[test]
fn a_code_of_ones_own_where_somebody_else_has_the_lock() {
    let (server, _client) = Server::held();
    let ran = redislock(&server, &["run", "k", "--no-wait", "-E", "3", "--", "true"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.err.contains("is held by"), "{}", ran.err);
}

#[test]
fn what_can_not_be_run_has_the_codes_of_the_shell() {
    let (server, mut client) = super::with_client();
    let ran = redislock(&server, &["run", "k", "--", "/nowhere/nothing"]);
    assert_eq!(ran.code, Some(127));
    assert!(ran.err.contains("can't run /nowhere/nothing"), "{}", ran.err);
    assert_eq!(redislock(&server, &["run", "k", "--", "/"]).code, Some(126));
    assert!(client.holders("k").is_empty());
}

#[test]
fn a_lock_that_is_renewed_outlives_its_lease() {
    let (server, mut client) = super::with_client();
    let running = Running::holding(&server, "k", &["--lease", "1s"], "exec sleep 60");
    let fence = client.holders("k").remove(0).fence;
    wait_for("more than two leases", || {
        client.holders("k").first().is_some_and(|holder| holder.held > 2_500)
    });
    assert_eq!(client.holders("k").remove(0).fence, fence);
    drop(running);
}

#[test]
fn a_password_does_not_reach_the_command() {
    let (server, mut client) = super::with_client();
    client.ask::<()>("ACL SETUSER app on >secret ~* &* +@all");
    let mut env = command(&url(&server), &["run", "k", "--user", "app", "--", "env"]);
    env.env("REDISLOCK_PASSWORD", "secret");
    let ran = ended(env);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.out.contains("secret"), "{}", ran.out);
    let with_password = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let ran = ended(command(&with_password, &["run", "k", "--", "sh", "-c", "echo $REDIS_URL"]));
    assert_eq!(ran.out, format!("redis://app@127.0.0.1:{}\n", server.port()), "{}", ran.err);
    // The program was given another server, so `REDIS_URL` belongs to the command and stays unchanged.
    let words = ["run", "k", "--url", &url(&server), "--", "sh", "-c", "echo $REDIS_URL"];
    assert_eq!(ended(command(&with_password, &words)).out, with_password.clone() + "\n");
}
