//! `redislock top` on a terminal of its own, whose screen the test reads.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::{redislock, url};
use crate::support::{Server, Waiter, program_path, server_time, wait_for, wait_until};

pub(super) struct Screen {
    process: std::process::Child,
    keys: File,
    parser: Arc<Mutex<vt100::Parser>>,
}

impl Drop for Screen {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Screen {
    pub(super) fn start(url: &str, words: &[&str]) -> Self {
        Self::sized(url, words, (120, 24))
    }

    /// Starts the program on a terminal with this many columns and rows.
    pub(super) fn sized(url: &str, words: &[&str], size: (u16, u16)) -> Self {
        let mut command = Command::new(program_path());
        command.args(words).env("REDIS_URL", url);
        Self::of(command, size)
    }

    pub(super) fn of(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let other = || {
            let path = name.to_str().unwrap();
            Stdio::from(File::options().read(true).write(true).open(path).unwrap())
        };
        let process =
            command.env("TERM", "xterm").stdin(other()).stdout(other()).stderr(other()).spawn().unwrap();
        let keys = File::from(terminal);
        let mut said = keys.try_clone().unwrap();
        let (rows, columns) = (NonZeroU16::new(rows).unwrap(), NonZeroU16::new(columns).unwrap());
        let parser = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let screen = Arc::clone(&parser);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = said.read(&mut bytes) {
                screen.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self { process, keys, parser }
    }

    pub(super) fn text(&self) -> String {
        self.with(vt100::Screen::contents)
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.parser.lock().unwrap().screen())
    }

    #[track_caller]
    pub(super) fn shows(&self, part: &str) {
        wait_for(&format!("{part} on the screen"), || self.text().contains(part));
    }

    pub(super) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

#[test]
fn locks_are_watched_sorted_filtered_and_looked_into() {
    let (server, mut client) = super::with_client();
    client.ask::<()>("LOCK.ACQUIRE quiet OWNER alice LABEL the-oldest PX 600000");
    // The first lock must be held for measurably longer than the next one.
    let held = server_time(&mut client);
    wait_until(&mut client, held + 10);
    client.ask::<()>("LOCK.ACQUIRE busy OWNER carol PX 600000");
    let mut screen = Screen::start(&url(&server), &["top", "--every", "100ms"]);
    screen.shows("the-oldest");
    let _waiter = Waiter::new(&server, "busy", "OWNER bob");
    screen.shows("waiters 1");
    let first = |screen: &Screen| screen.text().lines().nth(6).unwrap_or_default().to_owned();
    wait_for("the one that is waited for comes first", || first(&screen).contains("busy"));
    screen.press("h");
    wait_for("the one that is held longest comes first", || first(&screen).contains("quiet"));
    screen.press("/bus\r");
    wait_for("one lock", || !screen.text().contains("quiet") && screen.text().contains("locks with bus"));
    screen.press("\r");
    screen.shows("waited for by 1");
    assert!(screen.text().contains("bob"), "{}", screen.text());
    client.ask::<()>("LOCK.RELEASE busy carol");
    screen.shows("waited for by 0");
    screen.press("q");
    assert_eq!(screen.process.wait().unwrap().code(), Some(0));
}

#[test]
fn without_a_terminal_it_says_what_programs_have() {
    let server = Server::start();
    let ran = redislock(&server, &["top"]);
    assert_eq!(ran.code, Some(64));
    assert!(ran.err.contains("ls --json"), "{}", ran.err);
}

#[test]
fn of_thousands_it_shows_some_and_says_so_and_the_server_applies_the_filter() {
    let (server, mut client) = super::with_client();
    let locks: Vec<String> =
        (0..3_000).map(|number| format!("LOCK.ACQUIRE job:{number} OWNER o{number}")).collect();
    client.ask_all::<(), _>(&locks);
    client.ask::<()>("LOCK.ACQUIRE zebra OWNER mary");
    let screen = Screen::start(&url(&server), &["top", "--every", "100ms"]);
    screen.shows("500 of 3,001 locks");
    wait_for("a hold", || !screen.text().contains("longest held 0ms"));
    for (filter, shown) in [("zeb", "1 locks with zeb"), ("job:299[89]", "2 locks with job:299[89]")] {
        let screen = Screen::start(&url(&server), &["top", filter]);
        screen.shows(shown);
        assert_eq!(screen.text().contains("mary"), filter == "zeb", "{}", screen.text());
    }
    let small = Screen::sized(&url(&server), &["top", "zeb"], (20, 5));
    small.shows("zebra");
    assert!(small.text().contains("WAITERS"), "{}", small.text());
}

#[test]
fn a_frozen_server_holds_it_up_no_more_than_a_signal_leaves_its_frame() {
    let (server, mut client) = super::with_client();
    client.ask::<()>("LOCK.ACQUIRE k OWNER alice PX 600000");
    let open = || {
        let screen = Screen::start(&url(&server), &["top", "--every", "100ms"]);
        screen.shows("alice");
        screen
    };
    let mut screen = open();
    kill_process(Pid::from_child(&screen.process), Signal::TERM).unwrap();
    assert_eq!(screen.process.wait().unwrap().code(), Some(143));
    wait_for("the screen as it was", || !screen.with(vt100::Screen::alternate_screen));
    let mut screen = open();
    let id = Pid::from_raw(server.pid().try_into().unwrap()).unwrap();
    kill_process(id, Signal::STOP).unwrap();
    screen.shows("can't reach the server");
    let begin = Instant::now();
    screen.press("q");
    assert_eq!(screen.process.wait().unwrap().code(), Some(0));
    let took = begin.elapsed();
    kill_process(id, Signal::CONT).unwrap();
    assert!(took < Duration::from_secs(3), "{took:?}");
}
