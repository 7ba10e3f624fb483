//! What operators configure, observe and do.

mod break_;
mod client_name;
mod command_stats;
mod config;
mod gauges;
mod info;
mod log;
mod waits;
