//! What a server reports about itself. Facts that the user may not ask for stay unknown; the others are still looked at.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use redis::{FromRedisValue, RedisResult, Value as Reply, cmd};

use crate::connect::Node;
use crate::failure::Failure;
use crate::lock::json;

#[derive(Default)]
pub(crate) struct Facts {
    /// The version of the module as in MODULE LIST, where 100 is 0.1.0; `None` if there is no module.
    pub(crate) module: Option<u64>,
    /// The settings, by name; `None` if the user may not read them.
    pub(crate) settings: Option<BTreeMap<String, String>>,
    /// The fields of INFO, by name.
    pub(crate) info: BTreeMap<String, String>,
    /// A line for each user, as in ACL LIST; `None` if the user may not read it.
    pub(crate) users: Option<Vec<String>>,
    /// The replicas whose clocks could be read: the address, and by how many ms the clock is ahead of this server's.
    pub(crate) clocks: Vec<(String, i64)>,
    /// What could not be asked, and why.
    pub(crate) unknown: Vec<(&'static str, String)>,
}

impl Facts {
    pub(crate) fn of(node: &mut Node) -> Result<Self, Failure> {
        let mut facts = Self::default();
        // If not even PING is allowed, nothing can be found out.
        node.ask::<Reply>(&cmd("PING"), "looking at the server")?;
        let info: String = facts.known("INFO", ask(node, cmd("INFO").arg("everything"))).unwrap_or_default();
        facts.info = fields(&info);
        facts.settings = facts.known("CONFIG GET", ask(node, cmd("CONFIG").arg("GET").arg("*")));
        facts.users = facts.known("ACL LIST", ask(node, cmd("ACL").arg("LIST")));
        facts.module = match ask::<Reply>(node, cmd("MODULE").arg("LIST")) {
            Ok(list) => version(&json(list)),
            // COMMAND INFO shows whether the module is there, without the right to list modules.
            Err(_) => facts
                .known("COMMAND INFO", ask(node, cmd("COMMAND").arg("INFO").arg("LOCK.ACQUIRE")))
                .and_then(is_there),
        };
        facts.clocks = clocks(node, &facts.info);
        Ok(facts)
    }

    fn known<T>(&mut self, what: &'static str, answer: RedisResult<T>) -> Option<T> {
        answer.map_err(|error| self.unknown.push((what, error.to_string()))).ok()
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.as_ref()?.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    /// A number in INFO; 0 if INFO does not have it.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.info.get(name).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.info.get(name).is_some_and(|text| text == value)
    }
}

fn ask<T: FromRedisValue>(node: &mut Node, command: &redis::Cmd) -> RedisResult<T> {
    command.query(&mut node.connection)
}

/// The lines `name:value` of INFO.
pub(crate) fn fields(info: &str) -> BTreeMap<String, String> {
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

fn version(modules: &serde_json::Value) -> Option<u64> {
    let module =
        modules.as_array()?.iter().find(|module| module.get("name").is_some_and(|name| name == "lock"))?;
    module.get("ver")?.as_u64()
}

fn is_there(answer: Reply) -> Option<u64> {
    matches!(json(answer).get(0), Some(serde_json::Value::Array(_))).then_some(u64::MAX)
}

/// Reads the clocks of the replicas, with the same user and password as for this server. A clock that can't be read stays unknown.
fn clocks(node: &mut Node, info: &BTreeMap<String, String>) -> Vec<(String, i64)> {
    let replicas = info
        .iter()
        .filter(|(name, _)| name.strip_prefix("slave").is_some_and(|rest| rest.parse::<u32>().is_ok()));
    let mut clocks = Vec::new();
    for (_, line) in replicas {
        let part = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name)).map(str::to_owned);
        let (Some(host), Some(port)) = (part("ip="), part("port=").and_then(|port| port.parse().ok())) else {
            continue;
        };
        let Ok(mut replica) = node.other(&host, port) else { continue };
        let ahead = |node: &mut Node| -> RedisResult<i64> {
            let (seconds, micros): (i64, i64) = ask(node, &cmd("TIME"))?;
            let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            Ok(seconds * 1_000 + micros / 1_000 - i64::try_from(here).unwrap_or_default())
        };
        if let (Ok(theirs), Ok(ours)) = (ahead(&mut replica), ahead(node)) {
            clocks.push((format!("{host}:{port}"), theirs - ours));
        }
    }
    clocks
}
