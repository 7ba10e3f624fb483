//! `SESSION`: grants that live as long as a connection.

mod connection;
mod renewal;
mod stall;
mod takeover;
