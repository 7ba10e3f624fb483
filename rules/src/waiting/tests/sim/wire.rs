//! Commands as clients write them, and replies and messages as clients read them.

use std::num::{NonZeroU32, NonZeroU64};

use redis::{Arg, Cmd, RedisError, RedisResult, Value, make_extension_error};

use super::super::server::{Conn, KEYS, Lock, Reply, Rules, Server};
use crate::lock::{AcquireRequest, Deadline, Extras, Got, Millis, Owner, Room, Slot, SlotRequest};
use crate::waiting::{Channel, Confirm, ExtendRequest, ReleaseRequest, WaitOptions};

/// The lease of a command without a lease, in ms.
pub(super) const DEFAULT_LEASE: Millis = 8_000;

/// The words of a command.
pub(super) fn words(command: &Cmd) -> Vec<Vec<u8>> {
    let word = |arg: Arg<&[u8]>| if let Arg::Simple(word) = arg { word.to_vec() } else { Vec::new() };
    command.args_iter().map(word).collect()
}

pub(super) fn shown(words: &[Vec<u8>]) -> String {
    words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
}

/// The options of a command, which follow its keys and its owner.
struct Options<'a>(&'a [Vec<u8>]);

impl<'a> Options<'a> {
    fn has(&self, word: &str) -> bool {
        self.at(word).is_some()
    }

    fn at(&self, word: &str) -> Option<usize> {
        self.0.iter().position(|other| other == word.as_bytes())
    }

    fn value(&self, word: &str) -> Option<&'a [u8]> {
        Some(&self.0[self.at(word)? + 1])
    }

    fn number(&self, word: &str) -> Option<u64> {
        self.value(word).map(number)
    }

    fn lease(&self) -> Millis {
        self.number("PX").map_or(DEFAULT_LEASE, |lease| lease as Millis)
    }

    fn confirm(&self) -> Option<Confirm> {
        let at = self.at("SYNC")?;
        let [replicas, within] = [1, 2].map(|after| number(&self.0[at + after]) as u32);
        Some(Confirm { replicas: NonZeroU32::new(replicas)?, within })
    }
}

pub(super) fn asks(words: &[Vec<u8>]) -> bool {
    words[0].ends_with(b"ACQUIRE")
}

pub(super) fn extends(words: &[Vec<u8>]) -> bool {
    words[0].ends_with(b"EXTEND")
}

/// Whether an acquire or an extension with this reply was successful.
pub(super) fn is_given(reply: &RedisResult<Value>) -> bool {
    matches!(reply, Ok(Value::Array(_) | Value::Int(_)))
}

/// Returns the owner for which this command was sent.
pub(super) fn owner_of(words: &[Vec<u8>]) -> Vec<u8> {
    let keys = if words[0].starts_with(b"LOCK.M") { 1 + number(&words[1]) as usize } else { 1 };
    Options(words).value("OWNER").unwrap_or_else(|| &words[1 + keys]).to_vec()
}

fn number(word: &[u8]) -> u64 {
    std::str::from_utf8(word).unwrap().parse().unwrap()
}

pub(super) fn owner(name: &[u8]) -> Owner<'static> {
    Owner::new(name).unwrap().into_owned()
}

/// Runs a command. Returns the reply, or `None` if the client is blocked until replicas have confirmed a change.
pub(super) fn run(
    server: &mut Server,
    rules: Rules,
    now: Millis,
    conn: Conn,
    words: &[Vec<u8>],
) -> Option<RedisResult<Value>> {
    let (verb, rest) = words.split_first().unwrap();
    let verb = std::str::from_utf8(verb).unwrap().strip_prefix("LOCK.").unwrap();
    let verb = verb.strip_prefix('M').unwrap_or(verb);
    let several = words[0].starts_with(b"LOCK.M");
    let (count, rest) = if several { (number(&rest[0]) as usize, &rest[1..]) } else { (1, rest) };
    let (keys, rest) = rest.split_at(count);
    let lock = |key: &Vec<u8>| KEYS.iter().position(|known| known == key).unwrap();
    let locks: Vec<Lock> = keys.iter().map(lock).collect();
    let options = Options(rest);
    let first = locks[0];
    match verb {
        "ACQUIRE" => {
            let name = options.value("OWNER").unwrap();
            let (ask, wait) = asked(owner(name), &options);
            let reply = match several {
                true => server.acquire_all(rules, now, conn, &locks, &ask, &wait),
                false => server.acquire_on(rules, now, conn, first, &ask, &wait),
            };
            value(&reply, name, now)
        }
        "EXTEND" => {
            let owner = owner(&rest[0]);
            let (fence, lease, confirm) = (options.number("FENCE"), options.lease(), options.confirm());
            let longer = ExtendRequest { owner: &owner, fence, lease, confirm };
            value(&server.extend_each(rules, now, conn, &locks, &longer), &rest[0], now)
        }
        "RELEASE" => {
            let owner = owner(&rest[0]);
            let given = ReleaseRequest { owner: &owner, fence: options.number("FENCE"), all: false };
            if several {
                let left = server.release_each(rules, now, &locks, given);
                let left =
                    left.into_iter().map(|left| left.map_or(Value::Nil, |left| Value::Int(left.into())));
                return Some(Ok(Value::Array(left.collect())));
            }
            Some(
                server
                    .release_on(rules, now, first, given)
                    .map(|left| Value::Int(left.into()))
                    .ok_or_else(not_held),
            )
        }
        "LEAVE" => Some(Ok(Value::Int(server.leave_on(rules, now, first, &owner(&rest[0])).into()))),
        verb => panic!("{verb}"),
    }
}

fn asked(owner: Owner<'static>, options: &Options<'_>) -> (AcquireRequest<'static>, WaitOptions) {
    let (room, slot) = match (options.number("LIMIT"), options.has("SHARED")) {
        (Some(limit), _) => {
            let slot = options.number("SLOT").and_then(|slot| Slot::new(slot as u32));
            let slot = slot.map_or(SlotRequest::Least, SlotRequest::This);
            (Room::limit(limit as u32).unwrap(), Some(slot))
        }
        (None, true) => (Room::ANY, None),
        (None, false) => (Room::ONE, None),
    };
    let max_hold = options.number("MAXHOLD").map(|age| age as Millis);
    let ask = AcquireRequest {
        owner,
        lease: options.lease(),
        once: options.has("ONCE"),
        session: options.has("SESSION"),
        room,
        slot,
        extras: Extras::new(max_hold, options.value("LABEL")),
    };
    let channel = options.value("NOTIFY").map(|channel| Channel {
        address: channel.into(),
        wanted: false,
        start: options.number("START").and_then(NonZeroU64::new),
    });
    let timeout = options.number("BLOCK").map(|block| block as Millis);
    (ask, WaitOptions { timeout, channel, detect: options.has("DETECT"), confirm: options.confirm() })
}

pub(super) fn error(code: &str, text: &str) -> RedisError {
    make_extension_error(code.to_string(), Some(text.to_string()))
}

fn not_held() -> RedisError {
    error("NOTHELD", "the lock is not held by this owner")
}

/// Returns the reply as clients read it; `None` if it comes later.
pub(super) fn value(reply: &Reply, owner: &[u8], now: Millis) -> Option<RedisResult<Value>> {
    let grant = |fences: Value, holds: Value, until: Deadline, slots: Option<Value>| {
        let lease = Value::Int(until.left(now));
        let parts = [Value::BulkString(owner.to_vec()), fences, holds, lease];
        Value::Array(parts.into_iter().chain(slots).collect())
    };
    let fence = |got: &Got| Value::Int(got.fence.get().cast_signed());
    let slot = |slot: Slot| Value::Int(slot.get().into());
    Some(Ok(match reply {
        Reply::Granted { fence: number, holds, slot: its, deadline } => {
            let number = Value::Int(number.get().cast_signed());
            grant(number, Value::Int((*holds).into()), *deadline, its.map(slot))
        }
        Reply::All(all, until) => {
            let each = |part: &dyn Fn(&Got) -> Value| Value::Array(all.iter().map(part).collect());
            let slots: Vec<Value> = all.iter().filter_map(|got| got.slot).map(slot).collect();
            let slots = (!slots.is_empty()).then_some(Value::Array(slots));
            grant(each(&fence), each(&|got| Value::Int(got.holds.into())), *until, slots)
        }
        Reply::Null => Value::Nil,
        Reply::Queued => Value::SimpleString("QUEUED".into()),
        Reply::Extended(until) => Value::Int(until.left(now)),
        Reply::Waits => return None,
        Reply::Grace => return Some(Err(error("GRACE", "new grants resume later"))),
        Reply::NotHeld => return Some(Err(not_held())),
        Reply::NoReplicas => return Some(Err(error("NOREPLICAS", "too few replicas confirmed in time"))),
        Reply::Deadlock | Reply::Cycle(_) => {
            return Some(Err(error("DEADLOCK", "this wait would never end")));
        }
        Reply::NoReentry(_) => return Some(Err(error("ERR", "it can't be re-entered so"))),
        Reply::TooMany => return Some(Err(error("MAXWAITERS", "the queue is full"))),
        Reply::Unblocked => return Some(Err(error("UNBLOCKED", "client unblocked"))),
    }))
}
