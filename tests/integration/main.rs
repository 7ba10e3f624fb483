//! Tests on real servers with the module loaded, by concern. See `support` for what they stand on.

// Helpers outside `#[test]` functions are tests too: what would crash a server makes a test fail here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

mod acquire;
mod break_;
mod config;
mod events;
mod extend;
mod fence;
mod info;
mod input;
mod input_binary;
mod input_payload;
mod keyspace;
mod lease;
mod no_effect;
mod persistence;
mod release;
mod replication;
mod transactions;
