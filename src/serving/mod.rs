//! Runs the rules of `waiting` on the server's keys, clients and timers.
//!
//! - `steps`: what commands do to locks.
//! - `locks`: the table of the rules, and locks that are open for one step (the work of one command or timer).
//! - `blocked`: blocked clients, and the replies to them. `messages`: published messages.
//! - `timers`: the work that falls due between commands, the timers for it, and how it uses the server.
//! - `notices`: lines in the log about long waits and lapses.
//! - `heartbeat`: the grace, and whether this server was frozen.
//! - `listener`: the server's events about keys, connections and its own role.
//! - `views`: what commands and `INFO` show.

mod blocked;
mod heartbeat;
mod listener;
mod locks;
mod messages;
mod notices;
mod steps;
mod timers;
mod views;

pub(crate) use listener::ServerEvents;
pub(crate) use locks::now;
pub(crate) use messages::{client_name, named};
pub(crate) use steps::{
    Outcome, acquire, acquire_all, break_, extend, leave, release, release_all, reply_grant, reply_grants,
    settle,
};
pub(crate) use timers::SETTLE;
pub(crate) use views::{HolderInfo, Holders, grace, holders_shown, longest_held, most_work, shown, view};
