//! A lock as the server shows it: replies such as that of LOCK.INFO, converted to JSON, where `lease-ms` becomes `lease_ms`.

use redis::{ToSingleRedisArg, Value as Reply};
use serde_json::{Map, Value};

use crate::connect::{Link, Target};
use crate::failure::Failure;
use crate::text::{self, Name};

/// Turns a RESP3 reply into JSON. Bytes that are not UTF-8 become `\xff`.
pub(crate) fn json(reply: Reply) -> Value {
    match reply {
        Reply::Nil => Value::Null,
        Reply::Int(number) => number.into(),
        Reply::Double(number) => number.into(),
        Reply::Boolean(truth) => truth.into(),
        Reply::BulkString(bytes) => text::text(&bytes).into(),
        Reply::SimpleString(text) => text.into(),
        Reply::VerbatimString { text, .. } => text.into(),
        Reply::Okay => "OK".into(),
        Reply::Array(values) | Reply::Set(values) => values.into_iter().map(json).collect(),
        Reply::Map(pairs) => {
            let entry = |(name, value)| match json(name) {
                Value::String(name) => (name.replace('-', "_"), json(value)),
                other => (other.to_string(), json(value)),
            };
            Value::Object(pairs.into_iter().map(entry).collect::<Map<_, _>>())
        }
        _ => Value::Null,
    }
}

pub(crate) fn info(key: impl ToSingleRedisArg, full: bool) -> redis::Cmd {
    let mut command = redis::cmd("LOCK.INFO");
    command.arg(key);
    if full {
        command.arg("FULL");
    }
    command
}

/// Describes the holder: by the label, else by the name of its client, else by the owner.
pub(crate) fn who(grant: &Value) -> String {
    let names = ["label", "client_name", "owner"].map(|name| text::word(grant, name));
    names.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "?".to_owned())
}

/// The network address of the client with this id; `None` if the client has gone, or this user may not ask.
pub(crate) fn address(link: &mut Link, client: u64) -> Option<String> {
    let Link::One(_) = link else { return None };
    if client == 0 {
        return None;
    }
    let line: String = link.ask(redis::cmd("CLIENT").arg("LIST").arg("ID").arg(client)).ok()?;
    line.split(' ').find_map(|word| word.strip_prefix("addr=")).map(str::to_owned)
}

/// Describes who holds one of these locks, for example "invoice:42 is held by web-1 pid 4242: ./deploy (fence 17, 10.0.0.7:43812) for 3m 20s",
/// and returns the lock, too; `None` if all are free.
pub(crate) fn holder(link: &mut Link, keys: &[Name]) -> redis::RedisResult<Option<(String, Value)>> {
    let mut reserved = None;
    for key in keys {
        let lock = json(link.ask::<Reply>(&info(key, false))?);
        if lock.is_null() {
            continue;
        }
        let address = address(link, text::number(&lock, "client_id"));
        let found = (held_by(key, &lock, address), lock);
        if text::number(&found.1, "holders") > 0 {
            return Ok(Some(found));
        }
        reserved = reserved.or(Some(found));
    }
    Ok(reserved)
}

pub(crate) fn who_holds(target: &Target, keys: &[Name]) -> String {
    match target.link().map(|mut link| holder(&mut link, keys)) {
        Ok(Ok(Some((line, _)))) => line,
        Ok(_) => format!("{} was held by somebody else", names(keys)),
        Err(_) => format!("{} is held by somebody else", names(keys)),
    }
}

/// The names of locks, for a message.
pub(crate) fn names(keys: &[Name]) -> String {
    keys.iter().map(Name::to_string).collect::<Vec<_>>().join(", ")
}

fn held_by(key: &Name, lock: &Value, address: Option<String>) -> String {
    if let Some(grace) = lock.get("grace_ms").and_then(Value::as_u64) {
        return format!("{key} is not granted to anybody for {} more, after a failover", text::time(grace));
    }
    if lock.get("reserved_for").is_some() {
        return format!("{key} is reserved for somebody who waits for other locks, too");
    }
    let others = match text::number(lock, "holders") {
        0 | 1 => String::new(),
        2 => " and 1 other".to_owned(),
        holders => format!(" and {} others", holders - 1),
    };
    let address = address.map(|address| format!(", {address}")).unwrap_or_default();
    let (who, fence) = (who(lock), text::number(lock, "fence"));
    let time = text::time(text::number(lock, "held_ms"));
    format!("{key} is held by {who}{others} (fence {fence}{address}) for {time}")
}

/// The reply to a command about a lock.
pub(crate) fn ask(
    link: &mut Link,
    target: &Target,
    command: &redis::Cmd,
    tried: &str,
) -> Result<Value, Failure> {
    link.ask::<Reply>(command).map(json).map_err(|error| Failure::of(&error, tried, &target.address()))
}

/// Fails if the user lacks the right to one of these commands or, on one server, to subscribe. It also fails on a replica, because the package
/// would wait until the replica is promoted. Other errors of the commands do not matter.
pub(crate) fn needs(mut link: Link, target: &Target, commands: &[redis::Cmd]) -> Result<(), Failure> {
    let failed = |error: redis::RedisError| match error.code() {
        Some("NOPERM" | "READONLY") => {
            Err(Failure::of(&error, "looking at the user's rights", &target.address()))
        }
        _ => Ok(()),
    };
    for command in commands {
        link.ask::<Reply>(command).map(drop).or_else(failed)?;
    }
    let Link::One(connection) = &mut link else { return Ok(()) };
    let subscribe = redis::cmd("SUBSCRIBE").arg("redislock:rights").get_packed_command();
    let answer = connection.send_packed_command(&subscribe).and_then(|()| connection.recv_response());
    answer.and_then(Reply::extract_error).map(drop).or_else(failed)
}
