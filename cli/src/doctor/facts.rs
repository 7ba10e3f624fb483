//! What a server reports about itself. Facts that the user may not ask for stay unknown.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use redis::{FromRedisValue, RedisError, RedisResult, Value as Reply, cmd};

use crate::connect::Node;
use crate::doctor::rights::{self, ANY, User};
use crate::failure::Failure;
use crate::lock::info;

#[derive(Default)]
pub(crate) struct Facts {
    /// The module; `None` if nobody can find out whether the server has it.
    pub(crate) module: Option<Module>,
    /// The settings, by name; `None` if the user may not read them.
    pub(crate) settings: Option<BTreeMap<String, String>>,
    /// The fields of INFO, by name.
    pub(crate) info: BTreeMap<String, String>,
    /// The users who may log in; `None` if this user may not list them.
    pub(crate) users: Option<Vec<User>>,
    /// The replicas whose clocks could be read: the address, and by how many ms the clock is ahead of this server's.
    pub(crate) clocks: Vec<(String, i64)>,
    /// The settings of the replicas in `clocks`.
    pub(crate) replicas: Vec<(String, BTreeMap<String, String>)>,
    pub(crate) unchecked: Vec<Unchecked>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Module {
    No,
    /// The server has the module, with this version as in MODULE LIST, where 100 is 0.1.0; `None` if the user may not read the version.
    Yes(Option<u64>),
}

/// A fact that the server did not tell: which one, why, and how the user can find it out.
pub(crate) struct Unchecked {
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) mend: &'static str,
}

impl Facts {
    pub(crate) fn of(node: &mut Node) -> Result<Self, Failure> {
        let mut facts = Self::default();
        let info = ask(node, cmd("INFO").arg("everything"));
        let info: Option<String> = facts.known(node, "INFO", "+info", info)?;
        facts.info = fields(info.as_deref().unwrap_or_default());
        facts.module = match &info {
            Some(info) => Some(version(info)),
            None => is_there(node),
        };
        let settings = ask(node, cmd("CONFIG").arg("GET").arg("*"));
        facts.settings = facts.known(node, "CONFIG GET", "+config|get", settings)?;
        let list = ask(node, cmd("ACL").arg("LIST"));
        if let Some(list) = facts.known::<Vec<String>>(node, "ACL LIST", "+acl|list", list)? {
            let users = rights::ask(node, &list);
            facts.users = facts.known(node, "ACL DRYRUN", "+acl|dryrun", users)?;
            let beyond = rights::beyond(&list);
            if beyond > 0 {
                facts.unchecked.push(Unchecked {
                    what: format!("the rights of {beyond} users"),
                    why: "there are too many".to_owned(),
                    mend: "give many clients one user with one set of rights, or look with ACL DRYRUN",
                });
            }
        }
        facts.replicas(node);
        Ok(facts)
    }

    /// The answer; `None`, with a note in `unchecked`, if the server refuses to give it.
    fn known<T>(
        &mut self,
        node: &Node,
        what: &str,
        mend: &'static str,
        answer: RedisResult<T>,
    ) -> Result<Option<T>, Failure> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.code().is_some() => {
                self.unchecked.push(Unchecked { what: what.to_owned(), why: said(&error), mend });
                Ok(None)
            }
            Err(error) => Err(Failure::of(&error, "looking at the server", &node.address)),
        }
    }

    /// Reads the clocks and settings of the replicas, with the same user and password as for this server.
    fn replicas(&mut self, node: &mut Node) {
        let replicas: Vec<(String, u16)> = self
            .info
            .iter()
            .filter(|(name, _)| name.strip_prefix("slave").is_some_and(|rest| rest.parse::<u32>().is_ok()))
            .filter_map(|(_, line)| {
                let part = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name));
                Some((part("ip=")?.to_owned(), part("port=")?.parse().ok()?))
            })
            .collect();
        for (host, port) in replicas {
            let address = format!("{host}:{port}");
            match replica(node, &host, port) {
                Ok((ms, settings)) => {
                    self.clocks.push((address.clone(), ms));
                    self.replicas.push((address, settings));
                }
                Err(error) => self.unchecked.push(Unchecked {
                    what: format!("the clock and the settings of the replica {address}"),
                    why: said(&error),
                    mend: "+time and +config|get at the primary and its replicas, with one password, from a machine that reaches them all",
                }),
            }
        }
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

/// Reads a line such as `module:name=lock,ver=100,api=1`.
fn version(info: &str) -> Module {
    let mut modules = info.lines().filter_map(|line| line.strip_prefix("module:name=lock,ver="));
    modules.next().map_or(Module::No, |rest| {
        Module::Yes(rest.split(',').next().and_then(|version| version.parse().ok()))
    })
}

/// Finds out whether the server has the module. The server looks up a command before it checks rights, so any user can find this out.
fn is_there(node: &mut Node) -> Option<Module> {
    match ask::<Reply>(node, &info(ANY, false)) {
        Err(error) if said(&error).contains("unknown command") => Some(Module::No),
        Err(error) if error.code() != Some("NOPERM") => None,
        _ => Some(Module::Yes(None)),
    }
}

fn said(error: &RedisError) -> String {
    [error.code(), error.detail()].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// By how many ms the replica's clock is ahead of this server's clock, and the replica's settings.
fn replica(node: &mut Node, host: &str, port: u16) -> RedisResult<(i64, BTreeMap<String, String>)> {
    let offset = |node: &mut Node| -> RedisResult<i64> {
        let (seconds, micros): (i64, i64) = ask(node, &cmd("TIME"))?;
        let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Ok(seconds * 1_000 + micros / 1_000 - i64::try_from(here).unwrap_or_default())
    };
    let mut other = node.other(host, port)?;
    let ahead = offset(&mut other)? - offset(node)?;
    Ok((ahead, ask(&mut other, cmd("CONFIG").arg("GET").arg("*"))?))
}
