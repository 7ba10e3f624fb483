//! Runs the rules of `waiting` on the server's keys, clients and timers.
//!
//! - `steps`: what commands do to locks.
//! - `open_lock`: locks that are open for one step (the work of one command or timer).
//! - `callers`: the client of a command. `companion`: the key on which waiters are blocked.
//! - `tell`: replies to blocked clients. `messages`: published messages.
//! - `host`, `tick`: the work that falls due between commands, and the timers for it.
//! - `notices`: lines in the log about long waits and lapses.
//! - `heartbeat`: the grace, and whether this server was frozen.
//! - `listener`: the server's events about keys, connections and its own role.
//! - `views`, `holders`: what commands and `INFO` show. `table`: the table of the rules, and the clock.

mod callers;
mod companion;
mod heartbeat;
mod holders;
mod host;
mod listener;
mod messages;
mod notices;
mod open_lock;
mod steps;
mod table;
mod tell;
mod tick;
mod views;

pub(crate) use holders::{HolderInfo, Holders};
pub(crate) use host::SETTLE;
pub(crate) use listener::ServerEvents;
pub(crate) use messages::{client_name, named};
pub(crate) use steps::{Outcome, acquire, acquire_all, break_, extend, leave, release, release_all, settle};
pub(crate) use table::now;
pub(crate) use views::{grace, holders_shown, longest_held, most_work, shown, view};
