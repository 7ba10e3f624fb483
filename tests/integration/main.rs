//! Tests on real servers with the module loaded, by behaviour: `CONTRIBUTING.md` has a line for each folder. See `support` for what they
//! stand on.

// Helpers outside `#[test]` functions are tests too: what would crash a server makes a test fail here.
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
