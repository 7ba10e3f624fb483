//! Redislock: lock commands for Redis and Valkey, as a module of the server.
//!
//! This file lists what the module adds to the server, and connects events with listeners. Of the following parts of the source, each
//! imports only from parts to its right, as a test checks:
//!
//! ```text
//! lib -> info, commands -> serving -> keyspace
//! ```
//!
//! `commands` parses commands and replies to them. `serving` runs the rules of `waiting` on real locks and clients. `keyspace` stores locks
//! as keys, and replicates their changes. `server`, which all other parts may use, wraps the module API, and knows nothing about locks.
//! The rules are in a crate of their own, which knows nothing about Redis: `waiting` decides about queues, sessions and timers, `lock`
//! about one lock, and `encoding` writes and reads locks.

mod commands;
mod config;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod info;
mod keyspace;
mod server;
mod serving;
mod stats;
#[cfg(test)]
mod tests;

use commands::{
    Acquire, Apply, Break, Extend, Info, Leave, Macquire, Mextend, Mrelease, Release, Settle, Waits,
};
use server::{CommandSpec, EventSpec, Module, TypeSpec};
use serving::ServerEvents;

/// Everything that the module adds to the server.
static MODULE: Module = Module {
    name: c"lock",
    version: 100,
    types: &[TypeSpec::of::<rules::lock::Value, ServerEvents>()],
    category: c"lock",
    commands: &[
        CommandSpec::of::<Acquire>(),
        CommandSpec::of::<Release>(),
        CommandSpec::of::<Extend>(),
        CommandSpec::of::<Macquire>(),
        CommandSpec::of::<Mrelease>(),
        CommandSpec::of::<Mextend>(),
        CommandSpec::of::<Leave>(),
        CommandSpec::of::<Info>(),
        CommandSpec::of::<Waits>(),
        CommandSpec::of::<Break>(),
        CommandSpec::of::<Apply>(),
        CommandSpec::of::<Settle>(),
        #[cfg(debug_assertions)]
        CommandSpec::of::<server::Fault>(),
    ],
    configs: &[
        &config::DEFAULT_LEASE,
        &config::MAX_LEASE,
        &config::MAX_HOLD,
        &config::MAX_WAITERS,
        &config::MAX_HOLDERS,
        &config::FAILOVER_GRACE,
        &config::CLAIM,
        &config::MAX_PLACES,
        &config::MAX_KEYS,
        &config::MIN_SESSION_LEASE,
        &config::LOG_WAIT,
    ],
    events: &[EventSpec::of::<ServerEvents>()],
    info: info::write,
};

server::define_on_load!(MODULE);

/// The module allocates with the server's allocator, so that `INFO memory` and `maxmemory` count the module's memory. Unit tests and
/// fuzzers run without a server, on the system's allocator.
#[cfg(not(any(test, fuzzing)))]
#[global_allocator]
static ALLOCATOR: server::Aligning<redis_module::alloc::RedisAlloc> =
    server::Aligning(redis_module::alloc::RedisAlloc);
