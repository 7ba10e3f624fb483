//! The rules of `waiting`, as they ship, in worlds and histories without a server.

mod examples;
mod histories;
mod reference;
mod server;
mod together;
mod world;
mod worlds;
