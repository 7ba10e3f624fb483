//! Redislock: lock commands for Redis and Valkey, as a module of the server.
//!
//! This file is the table of contents. Data flows one way: `commands` parse, `lock` decides, `keyspace` stores and
//! propagates, `waiting` answers those who waited. `lock` knows nothing of the others; `server` knows nothing of locks.

mod commands;
mod config;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod info;
mod keyspace;
mod lock;
mod server;
#[cfg(test)]
mod tests;
mod waiting;

use commands::{Acquire, Apply, Break, Extend, Info, Release};
use server::{CommandSpec, EventSpec, Module, TypeSpec};
use waiting::{Departures, Settle};

/// Everything that the module adds to the server.
static MODULE: Module = Module {
    name: c"lock",
    version: 100,
    types: &[TypeSpec::of::<lock::Grant, Departures>()],
    category: c"lock",
    commands: &[
        CommandSpec::of::<Acquire>(),
        CommandSpec::of::<Release>(),
        CommandSpec::of::<Extend>(),
        CommandSpec::of::<Info>(),
        CommandSpec::of::<Break>(),
        CommandSpec::of::<Apply>(),
        CommandSpec::of::<Settle>(),
        #[cfg(feature = "faults")]
        CommandSpec::of::<server::Fault>(),
    ],
    configs: &[
        &config::DEFAULT_LEASE,
        &config::MAX_LEASE,
        &config::MAX_HOLD,
        &config::MAX_WAITERS,
        &config::FAILOVER_GRACE,
    ],
    events: &[EventSpec::of::<Departures>()],
    info: info::write,
};

server::define_on_load!(MODULE);

/// The server's allocator, so that `INFO memory` and `maxmemory` count the module's memory. Unit tests and fuzzers run
/// without a server, on the system's.
#[cfg(not(any(test, fuzzing)))]
#[global_allocator]
static ALLOCATOR: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;
