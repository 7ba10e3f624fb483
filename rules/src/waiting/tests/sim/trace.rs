//! A trace: what one core is told, and what it does then. `tests/clients/conformance/driver/traces.py` describes the format, and replays
//! traces with the cores of other languages.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use redis::{RedisError, RedisResult, Value, make_extension_error};
use serde_json::{Value as Json, json};

use super::core::error::{Error, is_gone, passes};
use super::core::promise::Promise;
use super::core::request::Request;
use super::core::{Acquired, Core, Granted, Id, Lane};
use super::process::{BEGIN, ms};
use super::wire;
use crate::lock::Millis;

/// What a core is told. Acquires and commands are numbered from 1, in the order in which they began.
#[derive(Clone)]
pub(super) enum Call {
    Subscribed,
    Unreachable,
    Heard(Vec<u8>),
    Answer(u64, RedisResult<Value>),
    Acquire(Request),
    Extend(u64, Option<Duration>),
    Check(u64),
    Release(u64),
    Cancel(u64),
    Close,
    /// The process is frozen until this time.
    Frozen(Millis),
}

fn number(json: &Json) -> u64 {
    json.as_u64().unwrap()
}

fn time(json: &Json) -> Option<Duration> {
    json.as_u64().map(Duration::from_millis)
}

fn in_ms(time: Duration) -> u64 {
    time.as_millis() as u64
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn value_to_json(value: &Value) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Int(number) => json!(number),
        Value::BulkString(bytes) => json!(text(bytes)),
        Value::SimpleString(said) => json!(said),
        Value::Array(all) => all.iter().map(value_to_json).collect(),
        other => panic!("{other:?}"),
    }
}

fn value_of_json(json: &Json, within: bool) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Number(number) => Value::Int(number.as_i64().unwrap()),
        Json::String(said) if within => Value::BulkString(said.clone().into_bytes()),
        Json::String(said) => Value::SimpleString(said.clone()),
        Json::Array(all) => Value::Array(all.iter().map(|one| value_of_json(one, true)).collect()),
        other => panic!("{other}"),
    }
}

fn reply_to_json(reply: &RedisResult<Value>) -> Json {
    match reply {
        Ok(value) => value_to_json(value),
        Err(error) if error.is_timeout() => json!({ "no answer": "silence" }),
        Err(error) => error.code().map_or(
            json!({ "no answer": "cut" }),
            |code| json!({ "error": format!("{code} {}", error.detail().unwrap_or_default()) }),
        ),
    }
}

fn reply_of_json(json: &Json) -> RedisResult<Value> {
    let kind = |kind| Err(std::io::Error::from(kind).into());
    if let Some(said) = json.get("error") {
        let (code, rest) = said.as_str().unwrap().split_once(' ').unwrap();
        return Err(make_extension_error(code.to_string(), Some(rest.to_string())));
    }
    match json.get("no answer").and_then(Json::as_str) {
        Some("silence") => kind(std::io::ErrorKind::TimedOut),
        Some(_) => kind(std::io::ErrorKind::ConnectionReset),
        None => Ok(value_of_json(json, false)),
    }
}

fn request_to_json(request: &Request) -> Json {
    let keys: Vec<String> = request.keys.iter().map(|key| text(key)).collect();
    let mut all =
        json!({ "keys": keys, if request.named { "owner" } else { "fresh" }: text(&request.owner) });
    let mut put = |name: &str, value: Option<Json>| {
        if let Some(value) = value {
            all[name] = value;
        }
    };
    for (name, time) in [("wait", request.wait), ("lease", request.lease), ("max_hold", request.max_hold)] {
        put(name, time.map(|time| json!(in_ms(time))));
    }
    for (name, said) in [("shared", request.shared), ("session", request.session), ("detect", request.detect)]
    {
        put(name, said.then_some(json!(true)));
    }
    put("renew", (!request.kept).then_some(json!(false)));
    put("limit", request.limit.map(|limit| json!(limit)));
    put("slot", request.slot.map(|slot| json!(slot)));
    put("sync", request.sync.map(|(replicas, within)| json!([replicas, in_ms(within)])));
    all
}

fn request_of_json(json: &Json) -> Request {
    let keys = json["keys"].as_array().unwrap().iter();
    let named = json.get("owner").is_some();
    let owner = &json[if named { "owner" } else { "fresh" }];
    let bytes = |json: &Json| json.as_str().unwrap().as_bytes().to_vec();
    let mut request = Request::new(keys.map(bytes).collect(), bytes(owner));
    request.named = named;
    (request.wait, request.lease) = (time(&json["wait"]), time(&json["lease"]));
    request.max_hold = time(&json["max_hold"]);
    let said = |name: &str| json.get(name) == Some(&json!(true));
    (request.shared, request.session, request.detect) = (said("shared"), said("session"), said("detect"));
    request.kept = json.get("renew").is_none();
    let few = |name: &str| json[name].as_u64().map(|number| number as u32);
    (request.limit, request.slot) = (few("limit"), few("slot"));
    request.sync = json["sync"].as_array().map(|sync| (number(&sync[0]) as u32, time(&sync[1]).unwrap()));
    request
}

impl Call {
    pub(super) fn to_json(&self, at: Millis) -> Json {
        match self {
            Self::Subscribed => json!([at, "subscribed"]),
            Self::Unreachable => json!([at, "unreachable"]),
            Self::Heard(said) => json!([at, "heard", text(said)]),
            Self::Answer(command, reply) => json!([at, "answer", command, reply_to_json(reply)]),
            Self::Acquire(request) => json!([at, "acquire", request_to_json(request)]),
            Self::Extend(task, lease) => json!([at, "extend", task, lease.map(in_ms)]),
            Self::Check(task) => json!([at, "check", task]),
            Self::Release(task) => json!([at, "release", task]),
            Self::Cancel(task) => json!([at, "cancel", task]),
            Self::Close => json!([at, "close"]),
            Self::Frozen(until) => json!([at, "frozen", until]),
        }
    }

    /// Returns `None` if the line is something that the core has done.
    pub(super) fn of_json(json: &Json) -> Option<(Millis, Self)> {
        let what = &json[2];
        let call = match json[1].as_str().unwrap() {
            "subscribed" => Self::Subscribed,
            "unreachable" => Self::Unreachable,
            "heard" => Self::Heard(what.as_str().unwrap().as_bytes().to_vec()),
            "answer" => Self::Answer(number(what), reply_of_json(&json[3])),
            "acquire" => Self::Acquire(request_of_json(what)),
            "extend" => Self::Extend(number(what), time(&json[3])),
            "check" => Self::Check(number(what)),
            "release" => Self::Release(number(what)),
            "cancel" => Self::Cancel(number(what)),
            "close" => Self::Close,
            "frozen" => Self::Frozen(what.as_i64().unwrap()),
            _ => return None,
        };
        Some((json[0].as_i64().unwrap(), call))
    }

    /// The name of this event in the table of docs/protocol.md. `verb` is that of the command that it answers.
    fn event(&self, verb: &str) -> String {
        let Self::Answer(_, reply) = self else {
            let line = self.to_json(0);
            let name =
                if let Self::Heard(said) = self { text(said) } else { line[1].as_str().unwrap().to_string() };
            return name.split(' ').next().unwrap().to_string();
        };
        let name = match (verb, reply) {
            (_, Err(error)) if passes(error) => "no answer",
            (_, Err(error)) if is_gone(error) => "NOTHELD",
            (_, Err(error)) if error.code() == Some("GRACE") => "GRACE",
            (_, Err(error)) if error.to_string().contains("syntax error") => "syntax error",
            (_, Err(_)) => "error",
            ("ACQUIRE", Ok(Value::Array(_))) => "grant",
            ("ACQUIRE", Ok(Value::Nil)) => "null",
            ("ACQUIRE", Ok(_)) => "QUEUED",
            ("EXTEND", Ok(_)) => "lease",
            (_, Ok(_)) => "done",
        };
        name.to_string()
    }
}

/// One acquire, and what the core has said about it.
struct Task {
    id: Id,
    acquired: Option<Acquired>,
    granted: Option<Granted>,
    released: Option<Promise<Result<(), Error>>>,
    extensions: Vec<Promise<Result<Duration, Error>>>,
    believes: Option<Option<Instant>>,
    owner: Vec<u8>,
    stage: &'static str,
    /// Whether the lock was lost in this step, and whether its lease was over then.
    lost: Option<bool>,
    sent: Vec<String>,
    arrows: Vec<Arrow>,
}

impl Task {
    fn note_loss(&mut self, core: &Core, now: Instant) {
        if self.lost.is_none() && core.stage(self.id) == "lost" && self.stage != "lost" {
            self.lost = Some(self.believes.flatten().is_some_and(|until| until <= now));
        }
    }
}

/// An arrow of the table in docs/protocol.md: a state, an event and the next state, and what is sent.
pub(super) type Arrow = ([String; 3], String);

/// A core with a clock of its own, without a world around it.
pub(super) struct Bench {
    core: Core,
    now: Millis,
    frozen: Millis,
    next: Option<Instant>,
    tasks: Vec<Task>,
    /// The verb of each command, the acquire to which it belongs, and whether it has an answer.
    sent: Vec<(String, Id, bool)>,
    subscribed: bool,
    /// What the core was told and what it did, as lines of a trace.
    pub(super) lines: Vec<Json>,
    /// When the core did something because of its clock alone, and when it was told something.
    by_clock: Vec<Millis>,
    by_call: Vec<Millis>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self {
            core: Core::new("p0".to_string()),
            now: 0,
            frozen: 0,
            next: None,
            tasks: Vec::new(),
            sent: Vec::new(),
            lines: Vec::new(),
            subscribed: false,
            by_clock: Vec::new(),
            by_call: Vec::new(),
        }
    }

    fn clock(&self) -> Instant {
        *BEGIN + ms(self.now)
    }

    /// Tells the core something, after everything that its clock makes it do before. Returns false if this answers no command.
    pub(super) fn call(&mut self, at: Millis, call: &Call) -> bool {
        self.pass(at - 1);
        if matches!(call, Call::Answer(command, _) if *command as usize > self.sent.len()) {
            return false;
        }
        self.now = at;
        self.lines.push(call.to_json(at));
        self.by_call.push(at);
        let now = self.clock();
        let id = |task: &u64| self.tasks[*task as usize - 1].id;
        match call {
            Call::Subscribed => {
                self.subscribed = true;
                self.core.subscribed(now);
            }
            Call::Unreachable => self.core.unreachable(&reset(), now),
            Call::Heard(said) => self.core.heard(said, now),
            Call::Answer(command, reply) => {
                let (_, id, answered) = &mut self.sent[*command as usize - 1];
                *answered = true;
                self.core.answered(*id, reply.clone(), now);
            }
            Call::Acquire(request) => {
                if let Ok((id, acquired)) = self.core.acquire(request.clone(), now) {
                    self.tasks.push(Task {
                        id,
                        acquired: Some(acquired),
                        granted: None,
                        released: None,
                        extensions: Vec::new(),
                        believes: None,
                        owner: request.owner.clone(),
                        stage: "over",
                        lost: None,
                        sent: Vec::new(),
                        arrows: Vec::new(),
                    });
                }
            }
            Call::Extend(task, lease) => {
                let extended = self.core.extend(id(task), *lease, now);
                self.tasks[*task as usize - 1].extensions.push(extended);
            }
            Call::Check(task) => _ = self.core.check(id(task), now).is_ok(),
            Call::Release(task) => {
                let task = &mut self.tasks[*task as usize - 1];
                let released = self.core.release(task.id, now);
                task.note_loss(&self.core, now);
                self.core.dropped(task.id, now);
                task.released = Some(released);
            }
            Call::Cancel(task) => self.core.cancel(id(task), now),
            Call::Close => self.core.close(now),
            Call::Frozen(until) => self.frozen = *until,
        }
        let of = |task: &u64| Some(self.tasks[*task as usize - 1].id);
        let (verb, of) = match call {
            Call::Answer(command, _) => {
                let (verb, id, _) = &self.sent[*command as usize - 1];
                (verb.as_str(), Some(*id))
            }
            Call::Heard(said) => {
                ("", self.tasks.iter().find(|task| said.ends_with(&task.owner)).map(|task| task.id))
            }
            Call::Extend(task, _) | Call::Check(task) | Call::Release(task) | Call::Cancel(task) => {
                ("", of(task))
            }
            _ => ("", None),
        };
        let event = call.event(verb);
        self.settle(&event, of);
        true
    }

    /// Makes the core do what is due by its clock until this time.
    pub(super) fn pass(&mut self, until: Millis) {
        while let Some(next) = self.next {
            let nanos = next.saturating_duration_since(*BEGIN).as_nanos();
            let at = (nanos.div_ceil(1_000_000) as Millis).max(self.frozen).max(self.now);
            if at > until {
                break;
            }
            self.now = at;
            let before = self.lines.len();
            self.next = self.core.tick(self.clock()).0;
            self.settle("time", None);
            if self.lines.len() > before {
                self.by_clock.push(at);
            }
        }
    }

    /// Whether the core does nothing more until it is told something.
    pub(super) fn is_over(&self) -> bool {
        self.next.is_none() && self.tasks.iter().all(|task| task.stage == "over")
    }

    /// Whether something that the clock caused could as well have happened before or after a call, because the times are too close.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.by_clock.iter().any(|at| self.by_call.iter().any(|other| (at - other).abs() <= 2))
    }

    fn settle(&mut self, mut event: &str, mut of: Option<Id>) {
        let mut by_clock = false;
        loop {
            let before = self.lines.len();
            let now = self.clock();
            self.tasks.iter_mut().for_each(|task| task.note_loss(&self.core, now));
            let out = std::mem::take(&mut self.core.out);
            out.told.into_iter().for_each(|tell| tell());
            for command in out.commands {
                let words = wire::words(&command.words);
                let verb = text(&words[0]).replace("LOCK.M", "").replace("LOCK.", "");
                for task in self.tasks.iter_mut().filter(|task| task.owner == wire::owner_of(&words)) {
                    task.sent.push(verb.clone());
                }
                self.sent.push((verb, command.id, false));
                let mut line = json!([self.now, "send", self.sent.len(), wire::shown(&words)]);
                if command.lane == Lane::Session {
                    line.as_array_mut().unwrap().push(json!("session"));
                }
                self.lines.push(line);
            }
            let ended = self.look();
            for id in &ended {
                self.core.dropped(*id, self.clock());
            }
            if by_clock && self.lines.len() > before {
                self.by_clock.push(self.now);
            }
            by_clock = out.sooner;
            if out.sooner {
                self.follow(event, of);
                (event, of) = ("time", None);
                self.next = self.core.tick(self.clock()).0;
            }
            if ended.is_empty() && self.core.out.commands.is_empty() && self.core.out.told.is_empty() {
                self.follow(event, of);
                return;
            }
        }
    }

    /// Notes what the tasks have been told. Returns those that have ended.
    fn look(&mut self) -> Vec<Id> {
        let (mut told, mut ended) = (Vec::new(), Vec::new());
        let now = Some(Duration::ZERO);
        for (number, task) in self.tasks.iter_mut().enumerate() {
            let number = number + 1;
            match task.acquired.as_ref().and_then(|acquired| acquired.wait(now)) {
                Some(Ok(granted)) => {
                    told.push(json!([self.now, "acquired", number, granted.fences, granted.slot]));
                    (task.acquired, task.granted) = (None, Some(granted));
                }
                Some(Err(why)) => {
                    told.push(json!([self.now, "refused", number, outcome(&why)]));
                    task.acquired = None;
                    ended.push(task.id);
                }
                None => {}
            }
            task.extensions.retain(|extended| {
                let result = extended.wait(now);
                match &result {
                    Some(Ok(lease)) => told.push(json!([self.now, "extended", number, in_ms(*lease)])),
                    Some(Err(why)) => told.push(json!([self.now, "not extended", number, outcome(why)])),
                    None => {}
                }
                result.is_none()
            });
            let believes = self.core.belief(task.id).map(|(_, until)| until);
            if believes != task.believes && believes.is_some() {
                let until = believes.flatten().map(|until| in_ms(until.saturating_duration_since(*BEGIN)));
                told.push(json!([self.now, "believes", number, until]));
            }
            task.believes = believes;
            if let Some(why) = task.granted.as_ref().and_then(|granted| granted.lost.wait(now)) {
                told.push(json!([self.now, "lost", number, outcome(&why)]));
                task.granted = None;
                ended.push(task.id);
            }
            if let Some(result) = task.released.as_ref().and_then(|released| released.wait(now)) {
                told.push(match result {
                    Ok(()) => json!([self.now, "released", number]),
                    Err(why) => json!([self.now, "not released", number, outcome(&why)]),
                });
                task.released = None;
            }
        }
        self.lines.extend(told);
        ended
    }

    /// The arrows that the tasks have taken, and the pairs of consecutive ones.
    pub(super) fn ways(&self) -> BTreeSet<Vec<[String; 3]>> {
        let turns = [["asking", "no answer", "asking"], ["held", "lease", "held"]];
        let names = self.tasks.iter().map(|task| {
            let names = task.arrows.iter().map(|(name, _)| name.clone());
            let mut names: Vec<_> =
                names.filter(|name| name[0] != name[2] || turns.iter().any(|turn| name == turn)).collect();
            names.dedup();
            names
        });
        let names: Vec<Vec<_>> = names.collect();
        let all = names.iter().flat_map(|names| (1..=2).flat_map(|length| names.windows(length)));
        all.map(<[_]>::to_vec).collect()
    }

    /// The arrows of the acquires that share their owners with no other.
    pub(super) fn arrows(&self) -> BTreeSet<Arrow> {
        let alone = |task: &&Task| self.tasks.iter().filter(|other| other.owner == task.owner).count() == 1;
        self.tasks.iter().filter(alone).flat_map(|task| task.arrows.clone()).collect()
    }

    /// Notes which arrows of the table the tasks have taken.
    fn follow(&mut self, event: &str, of: Option<Id>) {
        for task in &mut self.tasks {
            let (from, stage) = (task.stage, self.core.stage(task.id));
            let lost = task.lost.take();
            let to = if lost.is_some() { "lost" } else { stage };
            // The lease in an answer may be over already.
            let is_over = lost == Some(true) || lost.is_some() && event == "lease";
            let event = if is_over { "any" } else { event };
            task.stage = stage;
            task.sent.dedup();
            let mut sent = std::mem::take(&mut task.sent).join(" ");
            // What cannot be sent yet is sent later.
            let mut mine = self.sent.iter().filter(|(_, id, _)| *id == task.id).peekable();
            let waits = !self.subscribed || mine.peek().is_none() || mine.any(|(_, _, answered)| !answered);
            if sent.is_empty() && waits {
                sent = "later".to_string();
            }
            let arrow = ([from, event, to].map(str::to_string), sent);
            let moves = of == Some(task.id) || from != to || !matches!(arrow.1.as_str(), "" | "later");
            if moves && (from != "over" || to != "over") && task.arrows.last() != Some(&arrow) {
                task.arrows.push(arrow);
            }
        }
    }
}

fn reset() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}

fn outcome(why: &Error) -> &'static str {
    match why {
        Error::NotAcquired(_, Some(_)) => "unanswered",
        Error::NotAcquired(..) => "not acquired",
        Error::Lost(_) => "lost",
        Error::Deadlock(_) => "deadlock",
        Error::NotConfirmed(_) => "not confirmed",
        Error::NoModule(_) => "no module",
        Error::TooOld(_) => "too old",
        Error::Cancelled => "cancelled",
        Error::Closed => "closed",
        _ => "error",
    }
}
