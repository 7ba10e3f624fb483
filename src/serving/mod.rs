//! The server's side of waiting: the rules of `waiting` run here on real locks, real clients and real timers.
//!
//! - `steps`: what commands do to a lock; `open_lock`, `open_locks`: one lock, or several, open for one step; `callers`: their clients,
//!   who may be blocked.
//! - `tell`: blocked clients, from the answer to the last word on them; `messages`: what is published.
//! - `host`, `tick`: what falls due between commands, and the timers for it.
//! - `notices`: what stands in the log of long waits and lapses.
//! - `heartbeat`: the grace, and whether this server stood still.
//! - `listener`: what the server tells of keys, connections and its own role.
//! - `views`, `holders`: what is shown; `table`: who waits where, and how much one step or turn may do.

mod callers;
mod heartbeat;
mod holders;
mod host;
mod listener;
mod messages;
mod notices;
mod open_lock;
mod open_locks;
mod steps;
mod table;
mod tell;
mod tick;
mod views;

pub(crate) use holders::{HolderInfo, Holders, holders_of};
pub(crate) use host::SETTLE;
pub(crate) use listener::ServerEvents;
pub(crate) use steps::{acquire, break_, extend, leave, release, settle, settle_left};
pub(crate) use table::now;
pub(crate) use views::{grace, longest_held, most_work, outliving, view};
