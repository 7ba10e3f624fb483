//! Completion of options and lock names in real shells on a terminal.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::top::Screen;
use super::url;
use crate::support::{Server, Stopwatch, freeze, program_path, wake};

/// A shell, its options, and how it loads its completion script.
const SHELLS: [(&str, &[&str], &str); 4] = [
    ("bash", &["--norc", "--noprofile"], ". <(redislock completions bash)"),
    ("zsh", &["-f"], "autoload -U compinit; compinit -u -D; . <(redislock completions zsh)"),
    // This is how Debian's package installs it.
    (
        "zsh",
        &["-f"],
        "redislock completions zsh >_redislock; fpath=($PWD $fpath); autoload -U compinit; compinit -u -D",
    ),
    ("fish", &["--no-config"], "redislock completions fish | source"),
];

fn shell(server: &Server, (name, options, script): (&str, &[&str], &str)) -> Option<Screen> {
    let path = std::env::var("PATH").unwrap();
    if !std::env::split_paths(&path).any(|folder| folder.join(name).is_file()) {
        assert_ne!(name, "bash");
        eprintln!("{name} is not installed");
        return None;
    }
    let programs = program_path().parent().map(Path::display).unwrap();
    // The shell needs the terminal as its controlling terminal.
    let mut command = Command::new("setsid");
    command.args(["--ctty", name]).args(options).current_dir(server.folder()).env("HOME", server.folder());
    command.env("PATH", format!("{programs}:{path}")).env("REDIS_URL", url(server));
    let mut screen = Screen::of(command, (100, 24));
    screen.press(&format!("{script}; echo rea''dy\r"));
    screen.shows("ready");
    Some(screen)
}

#[test]
fn names_of_locks_are_completed() {
    let (server, mut client) = super::with_client();
    for name in ["invoice:42", "job:$(id)", "job:x y"] {
        client.ask_words::<(), _>(["LOCK.ACQUIRE", name, "OWNER", "alice", "PX", "600000"]);
    }
    client.ask::<()>("SET invoice:data x");
    for of in SHELLS {
        let Some(mut screen) = shell(&server, of) else { continue };
        for (typed, shown) in [
            ("show inv\t", "show invoice:42"),
            ("show invoice:\t", "show invoice:42"),
            ("run k --all inv\t", "--all invoice:42"),
            ("bre\tinv\t--fe\t", "break invoice:42 --fence"),
            // Names with special characters of the shell are not offered, and there are no names if the server is not reachable.
            ("show job\t\t:", "show job:"),
            ("show --url redis://127.0.0.1:1 inv\t\t:", "inv:"),
        ] {
            screen.press("clear\r");
            screen.press(&format!("redislock {typed}"));
            screen.shows(shown);
            screen.press("\u{3}");
        }
    }
}

#[test]
fn a_server_that_stands_still_holds_tab_up_for_a_second() {
    let server = Server::start();
    let mut screen = shell(&server, SHELLS[0]).unwrap();
    freeze(&server);
    let watch = Stopwatch::start();
    screen.press("redislock show inv\t:42");
    screen.shows("show inv:42");
    let took = watch.elapsed();
    wake(&server);
    assert!(took < Duration::from_secs(4), "{took:?}");
}
