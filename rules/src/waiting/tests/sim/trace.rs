//! A trace: what one core is told, and what it does then. `tests/clients/conformance/driver/traces.py` describes the format, and replays
//! traces with the cores of other languages.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use redis::{RedisError, RedisResult, Value, make_extension_error};
use serde_json::{Value as Json, json};

use super::core::error::Error;
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

    /// The name of this event in an arrow of the diagram.
    fn cause(&self) -> String {
        match self {
            Self::Heard(said) => text(said).split(' ').next().unwrap().to_string(),
            Self::Answer(_, Ok(Value::Array(_))) => "grant".to_string(),
            Self::Answer(_, Ok(Value::Nil)) => "null".to_string(),
            Self::Answer(_, Ok(Value::Int(_))) => "number".to_string(),
            Self::Answer(_, Ok(_)) => "QUEUED".to_string(),
            Self::Answer(_, Err(error)) => error.code().unwrap_or("no answer").to_string(),
            other => other.to_json(0)[1].as_str().unwrap().to_string(),
        }
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
    stage: &'static str,
    last: Option<Arrow>,
}

/// An arrow of the diagram: a state, an event, and the next state.
pub(super) type Arrow = (&'static str, String, &'static str);

/// A core with a clock of its own, without a world around it.
pub(super) struct Bench {
    core: Core,
    now: Millis,
    frozen: Millis,
    next: Option<Instant>,
    tasks: Vec<Task>,
    /// The acquire to which each command belongs.
    sent: Vec<Id>,
    /// What the core was told and what it did, as lines of a trace.
    pub(super) lines: Vec<Json>,
    pub(super) arrows: BTreeSet<Vec<Arrow>>,
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
            arrows: BTreeSet::new(),
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
            Call::Subscribed => self.core.subscribed(now),
            Call::Unreachable => self.core.unreachable(&reset(), now),
            Call::Heard(said) => self.core.heard(said, now),
            Call::Answer(command, reply) => {
                self.core.answered(self.sent[*command as usize - 1], reply.clone(), now);
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
                        stage: "over",
                        last: None,
                    });
                }
            }
            Call::Extend(task, lease) => {
                let extended = self.core.extend(id(task), *lease, now);
                self.tasks[*task as usize - 1].extensions.push(extended);
            }
            Call::Check(task) => _ = self.core.check(id(task), now).is_ok(),
            Call::Release(task) => {
                let released = self.core.release(id(task), now);
                self.core.dropped(id(task), now);
                let task = &mut self.tasks[*task as usize - 1];
                task.released = Some(released);
            }
            Call::Cancel(task) => self.core.cancel(id(task), now),
            Call::Close => self.core.close(now),
            Call::Frozen(until) => self.frozen = *until,
        }
        let of = match call {
            Call::Answer(command, _) => self.sent.get(*command as usize - 1).copied(),
            _ => None,
        };
        self.settle(&call.cause(), of);
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

    fn settle(&mut self, cause: &str, of: Option<Id>) {
        let mut by_clock = false;
        loop {
            let before = self.lines.len();
            self.follow(cause, of);
            let out = std::mem::take(&mut self.core.out);
            out.told.into_iter().for_each(|tell| tell());
            for command in out.commands {
                self.sent.push(command.id);
                let words = wire::shown(&wire::words(&command.words));
                let mut line = json!([self.now, "send", self.sent.len(), words]);
                if command.lane == Lane::Session {
                    line.as_array_mut().unwrap().push(json!("session"));
                }
                self.lines.push(line);
            }
            let ended = self.look();
            for id in &ended {
                self.core.dropped(*id, self.clock());
            }
            self.follow(cause, of);
            if by_clock && self.lines.len() > before {
                self.by_clock.push(self.now);
            }
            by_clock = out.sooner;
            if out.sooner {
                self.next = self.core.tick(self.clock()).0;
            }
            if ended.is_empty() && self.core.out.commands.is_empty() && self.core.out.told.is_empty() {
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

    /// Notes which arrows of the diagram the tasks have taken.
    fn follow(&mut self, cause: &str, of: Option<Id>) {
        for task in &mut self.tasks {
            let stage = self.core.stage(task.id);
            let turns =
                of == Some(task.id) && matches!((stage, cause), ("asking", "no answer") | ("held", "number"));
            if stage == task.stage && !turns {
                continue;
            }
            let arrow = (task.stage, cause.to_string(), stage);
            task.stage = stage;
            if task.last.as_ref() == Some(&arrow) {
                continue;
            }
            self.arrows.insert(vec![arrow.clone()]);
            self.arrows.extend(task.last.take().map(|last| vec![last, arrow.clone()]));
            task.last = Some(arrow);
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
