//! What users may do to the locks of others. The server is asked with `ACL DRYRUN`, since only the server knows what the user's rules,
//! categories and selectors allow together.

use redis::{RedisResult, Value, cmd, pipe};
use serde_json::Value as Json;

use crate::connect::Node;
use crate::doctor::facts::Facts;
use crate::doctor::findings::Severity::{self, Danger, Warning};
use crate::doctor::findings::{Finding, found};
use crate::lock::json;

/// Commands that an application needs and an operator doesn't: whoever may send them counts as an application.
const ACQUIRES: &[&str] = &["LOCK.ACQUIRE KEY"];
/// Commands that end the grants or waits of others.
const BREAK: &str = "LOCK.BREAK KEY";
const BREAKS: &[&str] = &[BREAK, "CLIENT KILL ID 1", "CLIENT UNBLOCK 1", "CLIENT PAUSE 1"];
/// Commands for any key that end or change a lock.
const WRITES: &[&str] = &[
    "DEL KEY",
    "SET KEY x",
    "EXPIRE KEY 1",
    "RENAME KEY KEY",
    "RESTORE KEY 0 x",
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB 0 1",
    "UNLINK KEY",
    "PEXPIRE KEY 1",
    "EXPIREAT KEY 1",
    "PEXPIREAT KEY 1",
    "PERSIST KEY",
    "RENAMENX KEY KEY",
    "COPY KEY KEY",
    "MOVE KEY 1",
    "MIGRATE host 1 KEY 0 1",
    "SETEX KEY 1 x",
    "PSETEX KEY 1 x",
    "MSET KEY x",
    "BITOP NOT KEY KEY",
    "SORT KEY STORE KEY",
    "SINTERSTORE KEY KEY",
    "SUNIONSTORE KEY KEY",
    "SDIFFSTORE KEY KEY",
    "ZRANGESTORE KEY KEY 0 1",
    "ZINTERSTORE KEY 1 KEY",
    "ZUNIONSTORE KEY 1 KEY",
    "ZDIFFSTORE KEY 1 KEY",
    "GEOSEARCHSTORE KEY KEY FROMMEMBER x BYRADIUS 1 m",
];
/// Commands that change or end the server, or that give a user all rights.
const ADMINISTERS: &[&str] = &[
    "CONFIG SET timeout 0",
    "ACL SETUSER x",
    "SHUTDOWN NOSAVE",
    "REPLICAOF NO ONE",
    "FAILOVER",
    "MODULE UNLOAD lock",
    "CLUSTER RESET",
    "DEBUG RELOAD",
];
/// A name of a lock that only patterns for all keys match.
pub(crate) const ANY: &str = "5d1f3a0c-any-lock";
/// The most users that the server is asked about, and how many one pipeline asks about.
const MOST: usize = 1_000;
const AT_ONCE: usize = 20;
/// The most users that a finding names, and the most commands for each of them.
const NAMED: usize = 5;

pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) nopass: bool,
    /// The commands of the lists above that the user may send.
    pub(crate) may: Vec<&'static str>,
}

/// The users of ACL LIST who may log in, and what they may do.
pub(crate) fn ask(node: &mut Node, lines: &[String]) -> RedisResult<Vec<User>> {
    let commands = || [ACQUIRES, BREAKS, WRITES, ADMINISTERS].into_iter().flatten().copied();
    let with_keys = |line: &String| Some((on(line)?, has_keys(line)));
    let mut users: Vec<(User, bool)> = lines.iter().filter_map(with_keys).take(MOST).collect();
    for some in users.chunks_mut(AT_ONCE) {
        let mut asks = pipe();
        for (user, _) in &*some {
            for command in commands() {
                let words = command.split(' ').map(|word| if word == "KEY" { ANY } else { word });
                asks.add_command(
                    cmd("ACL").arg("DRYRUN").arg(&user.name).arg(words.collect::<Vec<_>>()).take(),
                );
            }
        }
        let mut replies: std::vec::IntoIter<RedisResult<Value>> =
            asks.ignore_errors().query::<Vec<_>>(&mut node.connection)?.into_iter();
        for (user, has_keys) in some {
            for (command, reply) in commands().zip(&mut replies) {
                match reply.map(json) {
                    Ok(Json::String(said)) => {
                        // Nobody knows an application's keys. So if only the key is refused, the user counts as one who may acquire or break
                        // locks.
                        let of_own = *has_keys && (ACQUIRES.contains(&command) || command == BREAK);
                        if said == "OK" || of_own && !said.contains(" run ") {
                            user.may.push(command);
                        }
                    }
                    Ok(_) => {}
                    // The user has gone, or the server does not have the command.
                    Err(error) if error.to_string().contains("not found") => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(users.into_iter().map(|(user, _)| user).collect())
}

/// Whether the rules let the user write some keys.
fn has_keys(line: &str) -> bool {
    line.split([' ', '(']).any(|rule| rule.starts_with('~') || rule.starts_with("%W~"))
}

/// How many users could log in, but were not asked about.
pub(crate) fn beyond(lines: &[String]) -> usize {
    lines.iter().filter_map(|line| on(line)).count().saturating_sub(MOST)
}

/// For example `user app on #... ~app:* +@all`, if the user is on.
fn on(line: &str) -> Option<User> {
    let mut words = line.split(' ').skip(1);
    let name = words.next()?.to_owned();
    let rules: Vec<&str> = words.collect();
    rules.contains(&"on").then(|| User { name, nopass: rules.contains(&"nopass"), may: Vec::new() })
}

pub(crate) fn findings(facts: &Facts, all: &mut Vec<Finding>) {
    let Some(users) = &facts.users else { return };
    let open = users.iter().filter(|user| user.nopass && facts.settings.is_some() && !is_local(facts, users));
    tell(
        all,
        "open",
        Danger,
        "need no password, from any machine",
        open.map(|user| (user, user.may(&[BREAKS, WRITES, ADMINISTERS]))),
        [
            "whoever reaches the port can break and delete locks",
            "a password, and users with the rights that they need",
            "docs/operations/secure.md#acl-rules",
        ],
    );
    // The user `default` is left out, because it is known that it may do everything.
    let named = || users.iter().filter(|user| user.name != "default");
    tell(
        all,
        "break",
        Warning,
        "acquire locks, and may end those of others",
        named().filter(|user| !user.may(&[ACQUIRES]).is_empty()).map(|user| (user, user.may(&[BREAKS]))),
        [
            "an application that breaks locks by mistake lets two work at once",
            "ACL SETUSER for applications: -lock.break, and -@dangerous at the end",
            "docs/operations/secure.md#commands-to-keep-from-applications",
        ],
    );
    tell(
        all,
        "writes",
        Warning,
        "may write or delete every key, those of locks too",
        named().map(|user| (user, user.may(&[WRITES]))),
        [
            "a DEL or SET on the key of a lock ends it without a word to its holder",
            "give applications the keys of their data, and for locks the lock commands alone",
            "docs/operations/secure.md#acl-rules",
        ],
    );
    tell(
        all,
        "administers",
        Warning,
        "may change or end the server",
        named().map(|user| (user, user.may(&[ADMINISTERS]))),
        [
            "settings, users and roles decide whether locks are kept",
            "ACL SETUSER for applications: -@admin -@dangerous at the end",
            "docs/operations/secure.md#acl-rules",
        ],
    );
}

impl User {
    /// The commands of these lists that the user may send.
    fn may(&self, lists: &[&[&'static str]]) -> Vec<&'static str> {
        lists.iter().copied().flatten().filter(|command| self.may.contains(command)).copied().collect()
    }
}

/// Whether only this machine can connect.
fn is_local(facts: &Facts, users: &[User]) -> bool {
    let is_loopback =
        |address: &str| matches!(address.trim_start_matches('-'), "127.0.0.1" | "::1" | "localhost");
    // Protected mode counts only while the user `default` has no password.
    facts.setting("protected-mode") == Some("yes")
        && users.iter().any(|user| user.name == "default" && user.nopass)
        || facts.setting("bind").is_some_and(|bind| bind.split(' ').all(is_loopback))
}

/// Adds one finding for all these users, however many they are: "users who ...: app (DEL, SET), web (FLUSHALL) and 7 others".
fn tell<'a>(
    all: &mut Vec<Finding>,
    id: &'static str,
    severity: Severity,
    what: &str,
    users: impl Iterator<Item = (&'a User, Vec<&'static str>)>,
    words: [&'static str; 3],
) {
    let users: Vec<String> = users
        .filter(|(_, may)| !may.is_empty())
        .map(|(user, may)| format!("{} ({})", user.name, some(may.into_iter().map(name))))
        .collect();
    if !users.is_empty() {
        found(all, id, severity, format!("users who {what}: {}", some(users.into_iter())), words);
    }
}

/// The command without its arguments.
fn name(command: &'static str) -> String {
    let is_two =
        ["ACL", "CLIENT", "CLUSTER", "CONFIG", "MODULE"].iter().any(|word| command.starts_with(word));
    command.split(' ').take(if is_two { 2 } else { 1 }).collect::<Vec<_>>().join(" ")
}

/// The first `NAMED` words, and how many others there are.
fn some(mut words: impl ExactSizeIterator<Item = String>) -> String {
    let first = words.by_ref().take(NAMED).collect::<Vec<_>>().join(", ");
    match words.len() {
        0 => first,
        others => format!("{first} and {others} more"),
    }
}
