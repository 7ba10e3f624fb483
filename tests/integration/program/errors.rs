//! Errors: each prints one line, and has its own exit code.

use super::{command, ended, redislock, url};
use crate::support::{Server, Setup, Stopwatch, freeze, wait_for, wake};

/// Checks the exit code and the line.
fn fails(ran: &super::Ran, code: i32, parts: &[&str]) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    for part in parts {
        assert!(ran.err.contains(part), "{part} is not in {}", ran.err);
    }
}

/// All subcommands that connect to a server.
const ALL: [&[&str]; 6] =
    [&["run", "k", "--", "true"], &["ls"], &["show", "k"], &["break", "k", "--yes"], &["doctor"], &["bench"]];

#[test]
fn a_server_that_is_not_there_is_an_error_of_its_own() {
    let mut server = Server::start();
    let gone = url(&server);
    server.kill();
    for words in ALL {
        fails(&ended(command(&gone, words)), 69, &["can't reach the server", &gone]);
    }
}

#[test]
fn a_server_without_the_module_is_told_as_such() {
    let server = Setup::new().without_module().start();
    for words in
        [&["run", "k", "--", "true"] as &[_], &["ls"], &["show", "k"], &["break", "k", "--yes"], &["bench"]]
    {
        fails(&redislock(&server, words), 78, &["no Redislock module", "loadmodule"]);
    }
    assert_eq!(redislock(&server, &["doctor"]).code, Some(2));
}

#[test]
fn rights_that_are_missing_and_wrong_passwords() {
    let (server, mut client) = super::with_client();
    client.ask::<()>("ACL SETUSER app on >secret ~app:* &* +@all");
    client.ask::<()>("ACL SETUSER default nopass -@all +auth +hello +client");
    let with = |password: &str, words: &[&str]| {
        let mut command = command(&url(&server), words);
        command.env("REDISLOCK_USER", "app").env("REDISLOCK_PASSWORD", password);
        ended(command)
    };
    fails(&with("secret", &["show", "other"]), 77, &["no right"]);
    fails(&with("wrong", &["show", "app:k"]), 77, &["password"]);
    assert_eq!(with("secret", &["run", "app:k", "--", "true"]).code, Some(0));
    let file = server.folder().join("password");
    std::fs::write(&file, "secret\n").unwrap();
    let ran =
        redislock(&server, &["show", "app:k", "--user", "app", "--password-file", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "app:k is free\n"), "{}", ran.err);
}

#[test]
fn a_key_that_is_no_lock_is_refused() {
    let (server, mut client) = super::with_client();
    client.ask::<()>("SET k x");
    for words in [&["run", "k", "--", "true"] as &[_], &["show", "k"], &["break", "k", "--yes"]] {
        fails(&redislock(&server, words), 65, &["no lock"]);
    }
}

#[test]
fn a_replica_is_refused_with_a_hint_at_sentinel() {
    let server = Server::start();
    server.client().ask::<()>("LOCK.ACQUIRE k PX 600000");
    let replica = server.replica();
    for words in [&["run", "k", "--", "true"] as &[_], &["break", "k", "--yes"]] {
        fails(&redislock(&replica, words), 69, &["is a replica", "--sentinel"]);
    }
}

#[test]
fn wrong_options_are_refused_with_a_hint() {
    let server = Server::start();
    for words in [
        &[] as &[_],
        &["run", "k"],
        &["run", "k", "--", ""],
        &["run", "k", "--wait", "soon", "--", "true"],
        &["run", "k", "--wait", "1s", "--no-wait", "--", "true"],
        &["run", "k", "--limit", "0", "--", "true"],
        &["run", "k", "--all", "k", "--", "true"],
        &["run", "k", "--lease", "0s", "--", "true"],
        &["run", "k", "--once-per", "0s", "--", "true"],
        &["run", "k", "--once-per", "300000000y", "--", "true"],
        &["run", "", "--", "true"],
        &["run", "k", "--all", "", "--", "true"],
        &["run", "k", "--label", &"x".repeat(129), "--", "true"],
        &["run", "k", "--cert", "/nowhere", "--", "true"],
        &["bench", "--time", "0s"],
        &["bench", "--clients", "0"],
        &["ls", "--url", "http://127.0.0.1"],
        &["ls", "--url", "redis://a,redis://b"],
        &["ls", "--password-file", "/nowhere/nothing"],
        &["fly"],
    ] {
        let code = redislock(&server, words).code;
        let expected = if words == ["run", "k", "--", ""] { 127 } else { 64 };
        assert_eq!(code, Some(expected), "{words:?}");
    }
}

#[test]
fn a_password_on_the_command_line_is_refused() {
    let server = Server::start();
    let ran = redislock(&server, &["ls", "--url", &format!("redis://:secret@127.0.0.1:{}", server.port())]);
    fails(&ran, 64, &["ps", "REDIS_URL"]);
    assert!(!ran.err.contains("secret"));
    for url in ["me:secret@127.0.0.1", "redis://me:secret,x@127.0.0.1", "redis://me:secret"] {
        let ran = ended(command(url, &["ls"]));
        fails(&ran, 64, &["REDIS_URL is no URL"]);
        assert!(!ran.err.contains("secret"), "{}", ran.err);
    }
}

/// In `run`, words after `--` belong to the command, so clap's tip to add `--` would be wrong.
#[test]
fn an_error_gives_no_tip_that_can_not_work() {
    let server = Server::start();
    for words in [&["run", "-x", "k", "--", "true"] as &[_], &["run", "k", "-x", "--", "true"]] {
        let ran = redislock(&server, words);
        assert_eq!(ran.code, Some(64));
        assert!(ran.err.contains("'-x'") && !ran.err.contains("tip:"), "{}", ran.err);
    }
}

/// The log of a job may be on a full disk.
#[test]
fn output_that_can_not_be_written_changes_no_exit_code() {
    let (server, _client) = Server::held();
    let codes = [
        (&["run", "k", "--no-wait", "--", "true"] as &[_], 75),
        (&["run", "", "--", "true"], 64),
        (&["run", "free", "-v", "--", "true"], 0),
    ];
    for (words, code) in codes {
        let mut command = command(&url(&server), words);
        command.stderr(std::fs::File::create("/dev/full").unwrap());
        assert_eq!(command.status().unwrap().code(), Some(code), "{words:?}");
    }
}

#[test]
fn a_server_that_stands_still_is_given_up() {
    let server = Server::start();
    freeze(&server);
    for words in [&["run", "k", "--no-wait", "--", "true"] as &[_], &["show", "k"]] {
        let begin = Stopwatch::start();
        fails(&redislock(&server, words), 69, &["does not answer"]);
        assert!(begin.elapsed() < std::time::Duration::from_secs(9), "{:?}", begin.elapsed());
    }
    wake(&server);
}

#[test]
fn a_server_that_runs_a_script_is_busy_not_broken() {
    let (server, mut client) = super::with_client();
    // Redis before 7.0 uses another name for the setting; later servers accept both.
    client.ask::<()>("CONFIG SET lua-time-limit 1");
    let mut script = server.client();
    script.begin_words(["EVAL", "while true do end", "0"]);
    wait_for("the script to run", || client.send("PING").is_err());
    fails(&redislock(&server, &["show", "k"]), 69, &["can't answer now", "try again later"]);
    client.ask::<()>("SCRIPT KILL");
}
