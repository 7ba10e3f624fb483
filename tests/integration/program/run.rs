//! `redislock run`: what the command gets, what it ends with, and who may hold beside it.

use std::process::Stdio;

use super::{Running, command, ended, redislock, url};
use crate::support::{Server, queue, wait_for};

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
    client.ask::<()>("LOCK.ACQUIRE k OWNER alice LABEL nightly");
    for words in [&["--no-wait"] as &[_], &["--wait", "3s"]] {
        let ran = redislock(&server, &[&["run", "k"], words, &["--", "echo", "ran"]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (Some(75), ""), "{}", ran.err);
        assert!(ran.err.starts_with("redislock: k is held by nightly (fence "), "{}", ran.err);
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
    let (server, mut client) = super::with_client();
    let run =
        |script: &str| redislock(&server, &["run", "job", "--once-per", "1000d", "--", "sh", "-c", script]);
    assert_eq!(run("echo fails; exit 3").code, Some(3));
    let ran = run("echo ran");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "ran\n"));
    let ran = run("echo again");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    let keys: Vec<String> = client.ask("KEYS *");
    assert_eq!(keys.len(), 1);
    assert!(keys[0].starts_with("job:"), "{keys:?}");
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
}
