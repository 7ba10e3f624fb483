//! Reads and runs the commands of a scene.

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroU64};

use super::super::server::{Conn, KEYS, Lock, Reply, Writes};
use super::{LEASE, Scene};
use crate::lock::{AcquireRequest, Extras, Millis, Owner, Room, Slot, SlotRequest};
use crate::waiting::{Channel, Confirm, ExtendRequest, WaitOptions};

/// The words of a command that have not been read yet.
pub(super) struct Words<'a>(pub(super) VecDeque<&'a str>);

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        self.0.pop_front().expect("another word")
    }

    /// Whether there is this option.
    pub(super) fn flag(&mut self, option: &str) -> bool {
        let place = self.0.iter().position(|word| *word == option);
        place.and_then(|place| self.0.remove(place)).is_some()
    }

    /// Returns the value of an option.
    fn value(&mut self, option: &str) -> Option<&'a str> {
        let place = self.0.iter().position(|word| *word == option)?;
        self.0.remove(place);
        self.0.remove(place)
    }

    fn number<T: std::str::FromStr>(&mut self, option: &str) -> Option<T> {
        self.value(option).map(number)
    }
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

fn owner(name: &str) -> Owner<'static> {
    Owner::new(name.as_bytes()).unwrap().into_owned()
}

fn confirm(words: &mut Words<'_>) -> Option<Confirm> {
    let replicas = words.number("sync").and_then(NonZeroU32::new)?;
    Some(Confirm { replicas, within: words.number("within").unwrap_or(1_000) })
}

fn locks(word: &str) -> Vec<Lock> {
    word.split(',').map(|key| KEYS.iter().position(|of| **of == *key.as_bytes()).expect("a key")).collect()
}

impl Scene {
    pub(super) fn command(&mut self, conn: Conn, words: &mut Words<'_>) -> String {
        let (rules, now) = (self.rules, self.now);
        match words.next() {
            "acquire" => self.acquire(conn, words),
            "release" => {
                let (locks, owner) = (locks(words.next()), owner(words.next()));
                let (fence, all) = (self.fence(words), words.flag("all"));
                let left = match locks[..] {
                    [0] => vec![self.server.release(rules, now, &owner, fence, all)],
                    _ => self.server.release_all(rules, now, &locks, &owner, all),
                };
                left.iter()
                    .map(|left| left.map_or("-".into(), |left| left.to_string()))
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            "extend" => {
                let (locks, owner, lease) = (locks(words.next()), owner(words.next()), number(words.next()));
                let (fence, confirm) = (self.fence(words), confirm(words));
                let longer = ExtendRequest { owner: &owner, fence, lease, confirm };
                match self.server.extend_each(rules, now, conn, &locks, &longer) {
                    Reply::NotHeld | Reply::Grace => "refused".into(),
                    reply => self.reply(&reply),
                }
            }
            "break" => {
                let (lock, fence) = (locks(words.next())[0], self.fence(words));
                self.server.break_on(rules, now, lock, fence).to_string()
            }
            "leave" => {
                assert_eq!(words.next(), "k");
                u8::from(self.server.leave_on(rules, now, 0, &owner(words.next()))).to_string()
            }
            "close" => {
                self.server.close(rules, now, conn);
                String::new()
            }
            "disconnect" => {
                self.server.disconnect(conn);
                String::new()
            }
            "doom" => {
                self.server.doom(conn);
                String::new()
            }
            "unblock" => {
                let error = words.flag("error");
                let answers = self.server.unblock(rules, now, conn, error);
                self.told(answers).join("; ")
            }
            "delete" => {
                self.server.delete(locks(words.next())[0]);
                String::new()
            }
            "overwrite" => {
                self.server.overwrite_one(locks(words.next())[0]);
                String::new()
            }
            "rename" => {
                let (from, to) = (locks(words.next())[0], locks(words.next())[0]);
                self.server.rename(now, from, to);
                String::new()
            }
            "flush" => {
                self.server.flush();
                String::new()
            }
            "pass" => self.pass(number(words.next())),
            "freeze" => {
                self.now += number::<Millis>(words.next());
                String::new()
            }
            "cut" => {
                self.server.cut(now + number::<Millis>(words.next()));
                String::new()
            }
            "expire" => {
                self.server.expire(rules, now);
                String::new()
            }
            "due" => {
                let writes = if words.flag("refused") { Writes::Refused } else { Writes::Taken };
                let answers = self.server.run_due(rules, now, writes);
                self.told(answers).join("; ")
            }
            "answer" => {
                let answers = self.server.answer(rules, now);
                self.told(answers).join("; ")
            }
            "free" => {
                let answers = self.server.free_done(rules, now);
                self.told(answers).join("; ")
            }
            // Nothing may be left, not even a timer.
            "idle" => {
                assert_eq!((self.server.next_due(), self.server.is_empty()), (None, true));
                String::new()
            }
            "mark" => {
                self.mark = self.server.written;
                String::new()
            }
            "acks" => {
                self.server.hears = words.flag("all");
                let mut acks = std::mem::take(&mut words.0).into_iter().map(|word| match word {
                    "mark" => self.mark,
                    "now" => self.server.written,
                    word => number(word),
                });
                self.server.acked = acks.next().unwrap_or(self.server.acked);
                self.server.more_acked = acks.collect();
                String::new()
            }
            "info" => {
                let shown = self.server.shown(rules, now).into_iter();
                let shown =
                    shown.map(|(fence, until)| format!("{} {} ms", self.named(fence), until.left(now)));
                shown.collect::<Vec<_>>().join(", ")
            }
            "promote" => {
                self.server.promote(now);
                String::new()
            }
            "set" => {
                let value: Millis = number(words.0.remove(1).expect("a value"));
                match words.next() {
                    "grace" => self.rules.grace = value,
                    "max-hold" => self.rules.max_hold = Some(value).filter(|value| *value > 0),
                    "max-holders" => self.rules.max_holders = Room::limit(value as u32).unwrap_or(Room::ANY),
                    "max-waiters" => self.rules.most_waiters = Some(value as usize),
                    "max-places" => self.rules.most_places = Some(value as usize),
                    "max-lease" => self.rules.max_lease = Some(value),
                    "claim" => self.rules.claim = value,
                    "slow" => self.rules.slow = value > 0,
                    "late" => self.rules.late = value > 0,
                    "keeps-answers" => self.rules.keeps_answers = value > 0,
                    other => panic!("no setting {other}"),
                }
                String::new()
            }
            other => panic!("no command {other}"),
        }
    }

    fn acquire(&mut self, conn: Conn, words: &mut Words<'_>) -> String {
        let (key, name) = (words.next(), owner(words.next()));
        let slot = words.number("slot").and_then(Slot::new).map(SlotRequest::This);
        let (room, slot) = match words.number("limit") {
            Some(most) => (Room::limit(most).expect("a limit"), slot.or(Some(SlotRequest::Least))),
            None if words.flag("shared") => (Room::ANY, None),
            None => (Room::ONE, None),
        };
        let ask = AcquireRequest {
            once: words.flag("once"),
            session: words.flag("session"),
            room,
            slot,
            extras: Extras::new(words.number("maxhold"), None),
            ..AcquireRequest::new(name, words.number("px").unwrap_or(LEASE))
        };
        let channel = words.flag("notify").then(|| Channel {
            address: b"ch".as_slice().into(),
            wanted: words.flag("wanted"),
            start: words.number("start").and_then(NonZeroU64::new),
        });
        let wait = WaitOptions {
            timeout: words.number("block"),
            channel,
            detect: words.flag("detect"),
            confirm: confirm(words),
        };
        let reply = if key.contains(',') {
            self.server.acquire_all(self.rules, self.now, conn, &locks(key), &ask, &wait)
        } else {
            self.server.acquire_on(self.rules, self.now, conn, locks(key)[0], &ask, &wait)
        };
        self.reply(&reply)
    }

    /// Lets time pass, and does all work that falls due. Returns what happened.
    fn pass(&mut self, length: Millis) -> String {
        let (end, mut told) = (self.now + length, Vec::new());
        while let Some(due) = self.server.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            let answers = self.server.run_all_due(self.rules, self.now);
            told.extend(self.told(answers));
        }
        self.now = end;
        told.join("; ")
    }

    /// Reads the option `fence #n`.
    fn fence(&self, words: &mut Words<'_>) -> Option<u64> {
        let place = words.value("fence")?;
        Some(self.fences[number::<usize>(&place[1..]) - 1].get())
    }
}
