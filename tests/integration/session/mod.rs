//! `SESSION`: grants that live as long as a connection.

mod connection;
mod overwritten;
mod stall;
mod stall_shown;
mod takeover;
