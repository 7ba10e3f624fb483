//! Redislock and the ways to lock that it is compared with, from the tables of `rivals.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::report::Report;
use crate::resp::said;
use crate::server::{Server, Setup};

/// The lease, in ms, for work in which its length does not matter.
pub(crate) const LEASE: &str = "30000";
/// A lease that is longer than any measurement, in ms.
pub(crate) const LONG_LEASE: &str = "3600000";

/// Redislock's name in both tables.
pub(crate) const REDISLOCK: &str = "Redislock";
pub(crate) const SET_DEL: &str = "SET NX PX + DEL";
pub(crate) const SET_DEL_BESIDE_MODULE: &str = "SET NX PX + DEL, module loaded";
pub(crate) const SET_LUA: &str = "SET NX PX + compare-and-delete in Lua";
pub(crate) const HASH_LUA: &str = "re-entrant hash in Lua with PUBLISH";
pub(crate) const BLMOVE: &str = "BLMOVE of a token";
pub(crate) const SESSION: &str = "Redislock, SESSION";

static TABLES: LazyLock<Tables> =
    LazyLock::new(|| toml::from_str(include_str!("rivals.toml")).expect("tables of rivals"));
const SCRIPTS: [(&str, &str); 3] = [
    ("{compare_and_delete}", include_str!("lua/compare_and_delete.lua")),
    ("{hash_lock}", include_str!("lua/hash_lock.lua")),
    ("{hash_unlock}", include_str!("lua/hash_unlock.lua")),
];

#[derive(Deserialize)]
struct Tables {
    pairs: Vec<Rival>,
    waits: Vec<Rival>,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Rival {
    pub(crate) name: String,
    /// Whether it runs on a server with the module. Other contestants run on a server without it.
    #[serde(default)]
    module: bool,
    needs: Option<String>,
    #[serde(default)]
    pub(crate) targets: BTreeMap<String, f64>,
    before: Option<String>,
    acquire: String,
    granted: String,
    release: String,
    released: String,
}

/// Returns the way to acquire and release with this name.
pub(crate) fn pair(name: &str) -> Rival {
    find(&TABLES.pairs, name)
}

pub(crate) fn wait(name: &str) -> Rival {
    find(&TABLES.waits, name)
}

fn find(table: &[Rival], name: &str) -> Rival {
    table.iter().find(|rival| rival.name == name).unwrap_or_else(|| panic!("no rival {name}")).clone()
}

/// Returns the pairs whose commands the server has. The report says which pairs are left out.
pub(crate) fn known_pairs(report: &mut Report) -> Vec<Rival> {
    let server = Server::start(Setup::PLAIN);
    let mut rivals = TABLES.pairs.clone();
    rivals.retain(|rival| {
        let missing = rival.needs.as_ref().filter(|command| !server.knows(command));
        if let Some(command) = missing {
            report.note(format!("{}: left out, this server has no `{command}`", rival.name));
        }
        missing.is_none()
    });
    rivals
}

impl Rival {
    pub(crate) fn setup(&self) -> Setup {
        if self.module { Setup::MODULE } else { Setup::PLAIN }
    }

    /// Returns the server on which it runs, of the one without the module and the one with it.
    pub(crate) fn server<'a, S>(&self, [plain, module]: [&'a S; 2]) -> &'a S {
        if self.module { module } else { plain }
    }

    /// Prepares it for this server: loads the scripts, so that clients send `EVALSHA`, as they do in production.
    pub(crate) fn on(mut self, server: &Server) -> Self {
        for (name, source) in SCRIPTS {
            let sha = server.script(source);
            self.acquire = self.acquire.replace(name, &sha);
            self.release = self.release.replace(name, &sha);
        }
        self
    }

    /// Makes the lock if it must exist before its first acquire.
    pub(crate) fn make(&self, server: &Server, key: &str) {
        if let Some(before) = &self.before {
            server.ask(&before.replace("{key}", key));
        }
    }

    /// Returns the request with which this client takes a lock for `lease` ms.
    pub(crate) fn acquire(&self, key: &str, client: usize, lease: &str) -> Vec<u8> {
        said(&self.acquire.replace("{lease}", lease).replace("{key}", key), client)
    }

    pub(crate) fn release(&self, key: &str, client: usize) -> Vec<u8> {
        said(&self.release.replace("{key}", key), client)
    }

    /// Returns how the replies to acquire and release begin if they succeed.
    pub(crate) fn success(&self) -> [&[u8]; 2] {
        [self.granted.as_bytes(), self.released.as_bytes()]
    }

    pub(crate) fn granted(&self, reply: &[u8]) -> bool {
        reply.starts_with(self.granted.as_bytes())
    }
}
