//! What operators set, look at and do.

mod break_;
mod command_stats;
mod config;
mod gauges;
mod info;
mod log;
mod waits;
