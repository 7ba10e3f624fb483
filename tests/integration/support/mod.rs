//! What the tests stand on: a server for each test, clients that speak in one line, and waiting for a condition.

mod client;
mod module;
mod payload;
mod server;
mod wait;
mod waiter;

pub(crate) use client::{Client, Grant, grant};
pub(crate) use module::module_path;
pub(crate) use payload::{Item, Payload};
pub(crate) use server::{Server, Setup};
pub(crate) use wait::{PATIENCE, wait_for};
pub(crate) use waiter::{
    Queued, SOON, Waiter, blocked_clients, owners, queue, server_time, soon, transaction, wait_until,
};
