//! Runs a program, and keeps what it says. One that takes too long is ended, with all that it started.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

pub(super) struct Ran {
    pub(super) status: i32,
    pub(super) said: String,
    pub(super) took: Duration,
}

/// How long things may take.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) whole: Option<Duration>,
    /// Each test of a program of cargo's.
    pub(super) test: Duration,
}

const TIMED_OUT: i32 = 124;

/// Runs it, shows what it says if `show` is set, and ends it at its limits.
pub(super) fn run(command: &mut Command, show: bool, limits: Limits) -> Ran {
    let begin = Instant::now();
    let failed =
        |error: io::Error| Ran { status: 127, said: format!("error: {error}\n"), took: begin.elapsed() };
    let started = io::pipe().and_then(|(reader, writer)| {
        let child = command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn()?;
        Ok((reader, child))
    });
    // The command holds ends of the pipe, which would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (reader, mut child) = match started {
        Ok(started) => started,
        Err(error) => return failed(error),
    };
    let lines = lines_of(reader);
    let (mut said, mut status, mut open) = (String::new(), None, true);
    let mut slow: HashMap<String, Instant> = HashMap::new();
    // What it leaves running may hold its output open for ever: that is not waited for.
    let mut left_at = None;
    while open && left_at.is_none_or(|left: Instant| left.elapsed() < Duration::from_secs(5)) {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => {
                note_slow(&line, &mut slow);
                tell(&line, &mut said, show);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => open = false,
        }
        if status.is_none() {
            let late = slow.iter().find(|(_, since)| since.elapsed() >= limits.test);
            let late = late.map(|(name, _)| {
                format!("test {name} ... FAILED\nerror: {name} takes more than {:?}\n", limits.test)
            });
            let late = late.or_else(|| {
                let whole = limits.whole.filter(|whole| begin.elapsed() >= *whole)?;
                Some(format!("error: this takes more than {whole:?}\n"))
            });
            if let Some(late) = late {
                tell(&late, &mut said, show);
                end(child.id());
                drop(child.wait());
                status = Some(TIMED_OUT);
            } else if let Ok(Some(ended)) = child.try_wait() {
                status = Some(ended.code().unwrap_or(128));
            }
            if status.is_some() {
                left_at = Some(Instant::now());
            }
        }
    }
    if open {
        tell("warning: this left a process running\n", &mut said, show);
    }
    let status = status.unwrap_or_else(|| child.wait().ok().and_then(|ended| ended.code()).unwrap_or(128));
    Ran { status, said, took: begin.elapsed() }
}

fn lines_of(reader: io::PipeReader) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    lines
}

fn tell(line: &str, said: &mut String, show: bool) {
    said.push_str(line);
    if show {
        // Nobody may be listening.
        drop(io::stdout().write_all(line.as_bytes()));
    }
}

/// Programs of tests tell after a minute which of them still run.
fn note_slow(line: &str, slow: &mut HashMap<String, Instant>) {
    let Some(test) = line.trim_end().strip_prefix("test ") else { return };
    if let Some(name) = test.strip_suffix(" has been running for over 60 seconds") {
        let since = Instant::now().checked_sub(Duration::from_secs(60)).unwrap_or_else(Instant::now);
        slow.insert(name.to_owned(), since);
    } else if let Some((name, _)) = test.split_once(" ... ") {
        slow.remove(name);
    }
}

/// Ends that process and all that it has started, by their ids: the deepest first would let the others start more.
fn end(process: u32) {
    let parents = parents();
    let mut ended = vec![process];
    let mut at = 0;
    while let Some(&parent) = ended.get(at) {
        ended.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| child));
        at += 1;
    }
    let ids = ended.iter().map(u32::to_string);
    // The shell's own `kill`: not every machine has it as a program.
    let kill = ["-c", "kill -s KILL \"$@\"", "sh"];
    drop(Command::new("sh").args(kill).args(ids).stderr(Stdio::null()).status());
}

/// All processes with their parents.
fn parents() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name, in brackets, may have blanks and brackets.
        stat.rsplit_once(") ")?.1.split_whitespace().nth(1)?.parse().ok()
    };
    ids.filter_map(|id| Some((id, parent(id)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limits: Limits) -> Ran {
        run(Command::new("sh").args(["-c", script]), false, limits)
    }

    const LONG: Limits = Limits { whole: None, test: Duration::from_secs(300) };

    #[test]
    fn output_and_exit_code_are_kept() {
        let ran = shell("echo one; echo two >&2; exit 77", LONG);
        assert_eq!((ran.status, ran.said.as_str()), (77, "one\ntwo\n"));
    }

    #[test]
    fn what_takes_too_long_is_ended_with_what_it_started() {
        let limits = Limits { whole: Some(Duration::from_secs(1)), ..LONG };
        let ran = shell("sleep 600 & echo $!; wait", limits);
        assert_eq!(ran.status, TIMED_OUT);
        assert!(ran.said.contains("this takes more than 1s"), "{}", ran.said);
        let child: u32 = ran.said.lines().next().unwrap().parse().unwrap();
        assert!(
            !parents().iter().any(|&(id, of)| id == child && of != 1) || {
                // Ended, and not yet waited for by anybody.
                fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| stat.contains(") Z "))
            }
        );
    }

    #[test]
    fn a_test_that_takes_too_long_fails() {
        let limits = Limits { test: Duration::from_secs(61), ..LONG };
        let ran = shell("echo test a::b has been running for over 60 seconds; exec sleep 600", limits);
        assert_eq!(ran.status, TIMED_OUT);
        assert!(ran.said.contains("test a::b ... FAILED\n"), "{}", ran.said);
    }

    #[test]
    fn a_program_that_is_not_there_fails() {
        assert_eq!(run(&mut Command::new("/nowhere"), false, LONG).status, 127);
    }
}
