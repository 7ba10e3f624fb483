//! Tests on real servers with the module loaded. `CONTRIBUTING.md` describes the folders, which are named after behaviour; `support` has
//! the helpers.

// These lints are allowed in helpers, too, because a panic here only makes a test fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

mod acquire;
mod cluster;
mod cost;
mod detect;
mod docs;
mod extend;
mod failover;
mod faults;
mod fence;
mod grace;
mod history;
mod input;
mod keyspace;
mod label;
mod lease;
mod meddler;
mod memory;
mod notify;
mod operators;
mod pairs;
mod persistence;
mod program;
mod replication;
mod security;
mod session;
mod several;
mod shared;
mod sync;
mod transactions;
mod volume;
mod wait;
