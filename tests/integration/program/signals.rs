//! `redislock run` and signals: they are passed on, or, like SIGKILL, they end all its processes.

use rustix::process::{Signal, kill_process};

use super::top::Screen;
use super::{Running, children, is_alive, line};
use crate::support::{Server, queue, wait_for};

/// A shell script that prints its process id, and each signal that it receives.
const TELLS: &str = "trap 'echo term; exit 5' TERM; trap 'echo usr1' USR1; trap 'echo int' INT; echo $$; while :; do sleep 0.05; done";

#[test]
fn signals_reach_the_command_which_says_how_it_ends() {
    let (server, mut client) = super::with_client();
    let mut running = Running::holding(&server, "k", &[], TELLS);
    line(&mut running);
    running.signal(Signal::USR1);
    assert_eq!(line(&mut running), "usr1");
    running.signal(Signal::INT);
    assert_eq!(line(&mut running), "int");
    running.signal(Signal::TERM);
    let ran = running.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(5), "term\n"));
    assert!(client.holders("k").is_empty());
}

#[test]
fn a_signal_ends_a_wait_and_leaves_nothing_behind() {
    let (server, mut client) = Server::held();
    let waiting = Running::start(&server, &["run", "k", "--", "true"]);
    wait_for("a waiter", || queue(&mut client, "k").len() == 1);
    waiting.signal(Signal::INT);
    assert_eq!(waiting.end().code, Some(130));
    wait_for("no waiter", || queue(&mut client, "k").is_empty());
}

#[test]
fn a_command_that_is_killed_gives_the_lock_back() {
    let (server, mut client) = super::with_client();
    let mut running = Running::holding(&server, "k", &LONG, TELLS);
    let command = line(&mut running).parse().unwrap();
    kill_process(rustix::process::Pid::from_raw(command).unwrap(), Signal::KILL).unwrap();
    assert_eq!(running.end().code, Some(137));
    assert!(client.holders("k").is_empty());
}

/// The lease outlasts the test, so only the guard can release the lock.
const LONG: [&str; 2] = ["--lease", "1h"];

#[test]
fn when_redislock_is_killed_the_command_ends_and_the_next_one_runs() {
    let (server, mut client) = super::with_client();
    let mut running = Running::holding(&server, "k", &LONG, TELLS);
    let command = line(&mut running);
    let waiting = Running::start(&server, &["run", "k", "--", "echo", "next"]);
    wait_for("a waiter", || queue(&mut client, "k").len() == 1);
    running.signal(Signal::KILL);
    let ran = waiting.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "next\n"));
    assert!(!is_alive(&command));
    drop(running.end());
}

/// While a command still runs, its lock must not be released: the guard waits until the command has ended.
#[test]
fn the_guard_waits_for_a_command_that_does_not_go() {
    let (server, mut client) = super::with_client();
    // Only the shell ends with redislock. Processes that the shell has started live on, and nobody ends them.
    let mut running = Running::holding(&server, "k", &LONG, TELLS);
    let command = line(&mut running).parse().unwrap();
    let command = rustix::process::Pid::from_raw(command).unwrap();
    // The guard can also kill a stopped or traced process, and it does not wait for a process that is gone.
    kill_process(command, Signal::STOP).unwrap();
    running.signal(Signal::KILL);
    wait_for("the lock to be free", || client.holders("k").is_empty());
    assert!(!is_alive(&command.as_raw_nonzero().to_string()));
}

#[test]
fn run_goes_on_without_its_guard() {
    let (server, mut client) = super::with_client();
    let mut running = Running::holding(&server, "k", &[], TELLS);
    let command = line(&mut running);
    let guard =
        children(running.pid()).into_iter().find(|child| child.as_raw_nonzero().to_string() != command);
    kill_process(guard.unwrap(), Signal::KILL).unwrap();
    running.signal(Signal::TERM);
    let ran = running.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(5), "term\n"));
    assert!(client.holders("k").is_empty());
}

#[test]
fn a_lock_that_is_lost_ends_the_command() {
    let (server, mut client) = super::with_client();
    let mut running = Running::holding(&server, "k", &["--kill-after", "500000000000y"], TELLS);
    line(&mut running);
    client.ask::<()>("LOCK.BREAK k");
    let ran = running.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(74), "term\n"));
    assert!(ran.err.starts_with("redislock: lost: k: "), "{}", ran.err);
}

#[test]
fn a_command_that_does_not_end_by_itself_is_killed_then() {
    let (server, mut client) = super::with_client();
    let script = "trap '' TERM; echo $$; while :; do sleep 0.05; done";
    let mut running = Running::holding(&server, "k", &["--kill-after", "100ms"], script);
    let command = line(&mut running);
    client.ask::<()>("LOCK.BREAK k");
    assert_eq!(running.end().code, Some(74));
    assert!(!is_alive(&command));
}

/// `timeout` makes a process group, so the terminal does not send Ctrl-C to it.
#[test]
fn control_c_reaches_a_command_in_another_group() {
    let (server, mut client) = super::with_client();
    let mut shell = std::process::Command::new("setsid");
    shell.arg("-c").arg(crate::support::program_path()).env("REDIS_URL", super::url(&server));
    shell.args(["run", "k", "--", "timeout", "1h", "sh", "-c", "echo begun; exec sleep 3600"]);
    let mut screen = Screen::of(shell, (80, 24));
    screen.shows("begun");
    screen.press("\x03");
    wait_for("the lock to be free", || client.holders("k").is_empty());
}

/// A process that stood still for longer than its lease notices this when it continues.
#[test]
fn a_redislock_that_was_stopped_for_too_long_ends_its_command() {
    let (server, mut client) = super::with_client();
    let mut running = Running::holding(&server, "k", &["--lease", "1s"], TELLS);
    line(&mut running);
    running.signal(Signal::STOP);
    wait_for("the lease to end", || client.holders("k").is_empty());
    running.signal(Signal::CONT);
    let ran = running.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(74), "term\n"));
}

/// Signals are ignored under `nohup`, and for `&` in a script.
#[test]
fn what_was_ignored_stays_ignored_for_the_command_too() {
    let (server, mut client) = super::with_client();
    let program = crate::support::program_path().display().to_string();
    let script = format!("trap '' HUP INT QUIT; exec {program} run k -- sh -c 'echo $$; exec sleep 60'");
    let mut shell = super::command(&super::url(&server), &[]);
    let variables: Vec<_> =
        shell.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
    shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).envs(variables).stdout(std::process::Stdio::piped());
    let mut running = Running(shell.spawn().unwrap());
    let command = line(&mut running);
    let ignored = |process: &str| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & 0b111
    };
    assert_eq!((ignored(&running.0.id().to_string()), ignored(&command)), (0b111, 0b111));
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT] {
        running.signal(signal);
    }
    assert!(is_alive(&command) && !client.holders("k").is_empty());
    running.signal(Signal::TERM);
    assert_eq!(running.0.wait().unwrap().code(), Some(143));
}
