//! `redislock server`: a temporary server, alone or around a command.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::{Ran, Running, command, ended};
use crate::support::{cli_program, module_path, program_path, server_program, wait_for};

/// Returns the command `redislock server` with the server and the module under test, and with its files in `folder`.
fn server(folder: &Path, words: &[&str]) -> Command {
    let module = module_path().to_str().unwrap();
    let options = ["server", "--module", module];
    let mut command = command("redis://127.0.0.1:1", &[&options, words].concat());
    command.env("TMPDIR", folder).env("PATH", path(&server_program()));
    command
}

/// Returns the `PATH` with the server's folder first.
fn path(server: &str) -> String {
    let folder = Path::new(server).parent().unwrap().display();
    format!("{folder}:{}", std::env::var("PATH").unwrap())
}

fn empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

fn answers(url: &str) -> bool {
    redis::Client::open(url).unwrap().get_connection().is_ok()
}

#[test]
fn a_command_has_a_server_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = program_path().display();
    let script = format!("echo $REDIS_URL; {program} run k -- echo held; exit 7");
    let ran = ended(server(folder.path(), &["--", "sh", "-c", &script]));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!((ran.code, lines.last(), ran.err.as_str()), (Some(7), Some(&"held"), ""), "{ran:?}");
    assert!(!answers(lines[0]) && empty(folder.path()));
    assert_eq!(ended(server(folder.path(), &["--", "/nowhere/nothing"])).code, Some(127));

    let mut running =
        Running(server(folder.path(), &["--", "sh", "-c", "echo go; exec sleep 60"]).spawn().unwrap());
    running.says("go\n");
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(143));
    assert!(empty(folder.path()));
}

#[test]
fn alone_it_prints_where_it_is_and_ends_with_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, code) in [(Signal::TERM, Some(0)), (Signal::INT, Some(0)), (Signal::KILL, None)] {
        let (running, url) = started(folder.path());
        assert!(answers(&url));
        running.signal(signal);
        assert_eq!(running.end().code, code);
        wait_for("the server to go", || !answers(&url));
        assert!(code.is_none() || empty(folder.path()));
    }
}

/// Starts a server. Returns it and its URL.
fn started(folder: &Path) -> (Running, String) {
    let mut running = Running(server(folder, &[]).spawn().unwrap());
    running.says("redis://127.0.0.1:");
    let port = super::line(&mut running);
    (running, format!("redis://127.0.0.1:{port}"))
}

#[test]
fn a_server_that_ends_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (running, url) = started(folder.path());
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let info: String = redis::cmd("INFO").arg("server").query(&mut connection).unwrap();
    let id = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().parse().unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    said(&running.end(), 69, &["server ended", "bye bye"]);

    let script = format!("{} -u $REDIS_URL SHUTDOWN; exec sleep 60", cli_program());
    said(&ended(server(folder.path(), &["--", "sh", "-c", &script])), 69, &["server ended", "bye bye"]);

    let module = folder.path().join("no-module.so");
    fs::write(&module, "").unwrap();
    let mut broken = command("", &["server", "--module", module.to_str().unwrap()]);
    broken.env("PATH", path(&server_program()));
    said(&ended(broken), 69, &["did not start", "Can't load module"]);
}

fn said(ran: &Ran, code: i32, parts: &[&str]) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    for part in parts {
        assert!(ran.err.contains(part), "{part} is not in {}", ran.err);
    }
}

/// The archives of a release have the module beside the program; a program without it says what is missing.
#[test]
fn the_module_beside_the_program_is_found_and_what_is_missing_is_said() {
    let folder = tempfile::tempdir_in(program_path().parent().unwrap()).unwrap();
    let program = folder.path().join("redislock");
    // This is a link: a copy might still be open for writing in a process that another thread starts, and could then not run.
    fs::hard_link(program_path(), &program).unwrap();
    let with = |variable: &str, words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).env("PATH", variable);
        ended(command)
    };
    let path = path(&server_program());
    if !Path::new("/usr/lib/redis/modules/libredislock.so").exists() {
        let beside = folder.path().join("libredislock.so");
        let tried = [beside.to_str().unwrap(), "/usr/lib/redis/modules/libredislock.so", "--module"];
        said(&with(&path, &["server"]), 78, &tried);
    }
    fs::copy(module_path(), folder.path().join("libredislock.so")).unwrap();
    assert_eq!(with(&path, &["server", "--", "true"]).code, Some(0));
    for of_a_client in
        [&["--url", "redis://a"] as &[_], &["--cluster"], &["--user", "me"], &["--cacert", "x"]]
    {
        said(&with(&path, &[&["server"], of_a_client, &["--", "true"]].concat()), 64, &["--url"]);
    }
    said(&with("/nowhere", &["server"]), 69, &["/nowhere", "--server"]);
    said(&with("/nowhere", &["server", "--server", "/bin/true"]), 69, &["/bin/true"]);
    let options = ["server", "--server", &server_program(), "--", "/bin/true"];
    assert_eq!(with("/nowhere", &options).code, Some(0));
}
