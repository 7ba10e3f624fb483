//! Tests on real servers with the module loaded, by concern. See `support` for what they stand on.

// Helpers outside `#[test]` functions are tests too: what would crash a server makes a test fail here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

mod acquire;
mod age;
mod break_;
mod cluster;
mod config;
mod docs;
mod events;
mod extend;
mod failover;
mod faults;
mod fence;
mod found_far_deadline;
mod found_once_shared_hold;
mod found_session_overwritten;
mod gauges;
mod golden;
mod grace;
mod grace_clock;
mod history;
mod info;
mod input;
mod input_binary;
mod input_payload;
mod keyspace;
mod lease;
mod max_hold;
mod no_effect;
mod persistence;
mod persistence_fence;
mod release;
mod replication;
mod security;
mod session;
mod session_stall;
mod session_takeover;
mod soak_altered;
mod soak_defrag;
mod soak_files;
mod soak_joins;
mod soak_kill;
mod soak_leaks;
mod soak_mix;
mod soak_payloads;
mod soak_replicas;
mod soak_resp;
mod transactions;
mod waiting_block;
mod waiting_checklist;
mod waiting_events;
mod waiting_hand_over;
mod waiting_keyspace;
mod waiting_lapse;
mod waiting_leave;
mod waiting_many;
mod waiting_order;
mod waiting_quiet;
mod waiting_random;
mod waiting_same_owner;
mod waiting_same_step;
mod waiting_stats;
