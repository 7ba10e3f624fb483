//! `redislock top` on a terminal of its own, of which the screen is read.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

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

    /// On a terminal with so many columns and rows.
    pub(super) fn sized(url: &str, words: &[&str], (columns, rows): (u16, u16)) -> Self {
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
        let mut command = Command::new(program_path());
        command.args(words).env("REDIS_URL", url).env("TERM", "xterm");
        let process = command.stdin(other()).stdout(other()).stderr(other()).spawn().unwrap();
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

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

#[test]
fn locks_are_watched_sorted_filtered_and_looked_into() {
    let (server, mut client) = super::with_client();
    client.ask::<()>("LOCK.ACQUIRE quiet OWNER alice LABEL the-oldest PX 600000");
    // So that it is held longer, as far as milliseconds tell.
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
